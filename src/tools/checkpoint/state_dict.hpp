// Reads what torch.save of Python or LibTorch has pickled: tensors in modules, dictionaries and
// lists, and values beside them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/checkpoint/contents.hpp"
#include "tools/checkpoint/pickle.hpp"

namespace kolo::tools {

// Returns the bytes of a storage, by its key. Tensors are views of storages. May throw DataError.
using ReadStorage = std::function<std::vector<unsigned char>(const std::string& key)>;

// Formats a number as a note, with all its digits.
std::string note_of(double number);

// Returns tensors and notes. Names are the keys on the way to a value, joined with dots. Tensors
// and parameters may have any strides; subclasses become plain tensors. Numbers and texts become
// notes. Everything else (objects of Python, long lists of numbers) is left out. most_bytes: limit
// for all tensors together. Throws DataError.
Contents contents_of(const Pickle& pickle, const ReadStorage& read_storage,
                     std::uint64_t most_bytes);

}  // namespace kolo::tools
