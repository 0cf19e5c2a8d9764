// The safetensors format (https://github.com/huggingface/safetensors, "Format"):
//
//   file   = header_bytes u64, header, data
//   header = JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//                   "__metadata__": {"key": "text", ...} or null}
//
// Offsets count from the beginning of the data; tensors follow each other without gaps. As in the
// safetensors package, only spaces may pad the header. Duplicate keys are refused everywhere; the
// package takes the last of some.
#pragma once

#include <string>
#include <vector>

#include "tools/checkpoint/contents.hpp"

namespace kolo::tools {

// Throws DataError, which names `path`, if the bytes are not such a file.
Contents parse_safetensors(const std::vector<unsigned char>& bytes, const std::string& path);

// Returns the parts of a file, in their order. Throws InvalidArgumentError for a dtype or a name
// that the format does not have.
std::vector<std::vector<unsigned char>> make_safetensors(const Contents& contents);

}  // namespace kolo::tools
