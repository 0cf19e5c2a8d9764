// The safetensors format (https://github.com/huggingface/safetensors, "Format"):
//
//   file   = header_bytes u64, header, data
//   header = JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//                   "__metadata__": {"key": "text", ...} or null}
//
// Offsets count from the beginning of the data; tensors follow each other without holes. As in the
// safetensors package, spaces may pad the header, and nothing else. Doubled keys are refused
// everywhere; the package takes the last of some.
#pragma once

#include <string>
#include <vector>

#include "tools/checkpoint/contents.hpp"

namespace kolo::tools {

// Throws DataError, which names `path`, for bytes that are no such file.
Contents parse_safetensors(const std::vector<unsigned char>& bytes, const std::string& path);

// The parts of a file, one after the other. Throws InvalidArgumentError for a dtype or a name that
// the format does not have.
std::vector<std::vector<unsigned char>> make_safetensors(const Contents& contents);

}  // namespace kolo::tools
