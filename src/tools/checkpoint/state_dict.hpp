// What torch.save of Python or LibTorch has pickled: tensors, in modules, in dictionaries and
// lists, and values beside them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/checkpoint/contents.hpp"
#include "tools/checkpoint/pickle.hpp"

namespace kolo::tools {

// The bytes of a storage, which tensors are views of, by its key. May throw DataError.
using ReadStorage = std::function<std::vector<unsigned char>(const std::string& key)>;

// A number as a note, with all its digits.
std::string note_of(double number);

// Names are the keys on the way to a value, joined with dots. Tensors and parameters of any
// strides; subclasses become plain ones. Numbers and texts become notes. What else there is
// (objects of Python, long lists of numbers) is left out. most_bytes: of all tensors together.
// Throws DataError.
Contents contents_of(const Pickle& pickle, const ReadStorage& read_storage,
                     std::uint64_t most_bytes);

}  // namespace kolo::tools
