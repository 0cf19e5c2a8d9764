// Which format a file has, by its name.
#pragma once

#include <string>

namespace kolo::tools {

enum class Format { kCheckpoint, kSafetensors, kTorch };

// ".h5", ".safetensors", ".pt" or ".pth"; throws InvalidArgumentError for another one.
Format format_of(const std::string& path);

}  // namespace kolo::tools
