// The contents of a file of tensors, in memory, whatever the file's format.
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

// The note that lists submodules without tensors, one a line. LibTorch's archives have such
// modules.
inline constexpr const char* kModulesNote = "kolo.modules";

struct Contents {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> notes;  // texts beside the tensors
  std::vector<std::string> left_out;         // names of everything else in the file
};

// Returns the tensors of one component ("model") of a checkpoint. Throws FileError, DataError, and
// InvalidArgumentError if the checkpoint has no tensors under that name.
Contents read_checkpoint(const std::string& path, const std::string& component);

// Writes a checkpoint of step 0 with only this component. Throws FileError, InvalidArgumentError.
void write_checkpoint(const std::string& path, const std::string& component,
                      const Contents& contents);

// Returns all of a file. Throws FileError.
std::vector<unsigned char> read_file(const std::string& path);
// Writes under another name first, so that there is never an incomplete file. Throws FileError.
void write_file(const std::string& path, const std::vector<std::vector<unsigned char>>& parts);

}  // namespace kolo::tools
