// Files that LibTorch writes and reads.
#pragma once

#include <string>

#include "tools/checkpoint/contents.hpp"

namespace kolo::tools {

// Reads an archive of torch::save or of Python's torch.save (a state_dict, say). Nested names are
// joined with dots. Numbers and texts beside the tensors become notes; other objects are left out.
// Nothing in the file is executed. Throws DataError, FileError.
Contents read_torch(const std::string& path);

// Writes a state_dict as Python's torch.save does. Throws FileError, and InvalidArgumentError for
// names that are not UTF-8.
void write_state_dict(const std::string& path, const Contents& contents);

// Writes an archive that torch::load() reads into a module with these names, as does Python's
// torch.jit.load. Throws FileError, and InvalidArgumentError for names that TorchScript cannot
// have.
void write_module(const std::string& path, const Contents& contents);

}  // namespace kolo::tools
