// Files that LibTorch writes and reads.
#pragma once

#include <string>

#include "tools/contents.hpp"

namespace kolo::tools {

// An archive of torch::save, or what Python's torch.save wrote (a state_dict, say); nested names
// are joined with dots. Numbers and texts beside the tensors become notes; other objects are left
// out. Nothing in the file is executed. Throws DataError, FileError.
Contents read_torch(const std::string& path);

// An archive that torch::load() reads into a module with these names, and Python's torch.jit.load.
// Throws FileError, and InvalidArgumentError for names that cannot be a module's.
void write_torch(const std::string& path, const Contents& contents);

}  // namespace kolo::tools
