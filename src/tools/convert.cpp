#include "tools/convert.hpp"

#include "kolo/error.h"

namespace kolo::tools {

Format format_of(const std::string& path) {
  if (path.ends_with(".h5")) return Format::kCheckpoint;
  if (path.ends_with(".safetensors")) return Format::kSafetensors;
  if (path.ends_with(".pt") || path.ends_with(".pth")) return Format::kTorch;
  throw InvalidArgumentError("the name " + path +
                             " says no format; it ends with .h5 (a checkpoint of kolo's), "
                             ".safetensors, .pt or .pth (torch::save's and torch.save's)");
}

}  // namespace kolo::tools
