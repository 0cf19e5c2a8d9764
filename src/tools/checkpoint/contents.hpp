// What is in a file of tensors, whatever its format, in memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/table.hpp"

namespace kolo::tools {

struct NamedTensor {
  std::string name;  // as the module has it: "conv1.weight"
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<unsigned char> bytes;  // row-major, little endian
};

// The note that lists submodules without tensors, a line each, which LibTorch's archives have, too.
inline constexpr const char* kModulesNote = "kolo.modules";

struct Contents {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> notes;  // texts beside the tensors
  std::vector<std::string> left_out;         // names of what else there was
};

// The tensors of one component ("model") of a checkpoint. Throws FileError, DataError, and
// InvalidArgumentError if the checkpoint has no tensors under that name.
Contents read_checkpoint(const std::string& path, const std::string& component);

// A checkpoint of step 0 with this component alone. Throws FileError, InvalidArgumentError.
void write_checkpoint(const std::string& path, const std::string& component,
                      const Contents& contents);

// All of a file. Throws FileError.
std::vector<unsigned char> read_file(const std::string& path);
// Under another name first, so that there is never half a file. Throws FileError.
void write_file(const std::string& path, const std::vector<std::vector<unsigned char>>& parts);

}  // namespace kolo::tools
