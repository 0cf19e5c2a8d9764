// Finds the format of a file by its name.
#pragma once

#include <string>

#include "tools/checkpoint/contents.hpp"

namespace kolo::tools {

enum class Format { kCheckpoint, kSafetensors, kTorch };

// Knows ".h5", ".safetensors", ".pt" and ".pth". Throws InvalidArgumentError for other names.
Format format_of(const std::string& path);

// Reports what was converted, and on standard error what was left out.
void report(const Contents& contents, const std::string& from, const std::string& to);

}  // namespace kolo::tools
