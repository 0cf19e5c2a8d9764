// Which format a file has, by its name.
#pragma once

#include <string>

#include "tools/checkpoint/contents.hpp"

namespace kolo::tools {

enum class Format { kCheckpoint, kSafetensors, kTorch };

// ".h5", ".safetensors", ".pt" or ".pth"; throws InvalidArgumentError for another one.
Format format_of(const std::string& path);

// Says what was converted, and to the standard error what was left out.
void report(const Contents& contents, const std::string& from, const std::string& to);

}  // namespace kolo::tools
