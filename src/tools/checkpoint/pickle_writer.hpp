// Writes the pickle of a state_dict as Python's torch.save does: the record "data.pkl" of its
// archive. The bytes of the n-th tensor are the record "data/n". Python's
// torch.load(weights_only=True) and C++'s torch::pickle_load read it.
#pragma once

#include <string>

#include "tools/checkpoint/contents.hpp"

namespace kolo::tools {

// Returns a dictionary with the tensors by name, in their order. It is not an OrderedDict, which
// torch::pickle_load takes for None. Throws InvalidArgumentError for names that are not UTF-8.
std::string pickle_of(const Contents& contents);

}  // namespace kolo::tools
