// Writes what Python's torch.save of a state_dict pickles: the record "data.pkl" of its archive.
// The bytes of the n-th tensor are the record "data/n". Python's torch.load(weights_only=True)
// reads it, and in C++ torch::pickle_load.
#pragma once

#include <string>

#include "tools/checkpoint/contents.hpp"

namespace kolo::tools {

// A dictionary with the tensors by name, in their order. It is a plain one, not an OrderedDict,
// which torch::pickle_load takes for None. Throws InvalidArgumentError for names that are not
// UTF-8.
std::string pickle_of(const Contents& contents);

}  // namespace kolo::tools
