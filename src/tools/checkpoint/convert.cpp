#include "tools/checkpoint/convert.hpp"

#include <iostream>

#include "kolo/error.h"
#include "tools/printable.hpp"

namespace kolo::tools {

Format format_of(const std::string& path) {
  if (path.ends_with(".h5")) return Format::kCheckpoint;
  if (path.ends_with(".safetensors")) return Format::kSafetensors;
  if (path.ends_with(".pt") || path.ends_with(".pth")) return Format::kTorch;
  throw InvalidArgumentError(
      "the name " + path +
      " does not show a format; it must end with .h5 (a checkpoint of kolo), .safetensors, .pt or "
      ".pth (files of torch::save and torch.save)");
}

void report(const Contents& contents, const std::string& from, const std::string& to) {
  std::cout << contents.tensors.size() << " tensors from " << from << " to " << to << "\n";
  const auto left_out = [](const std::string& what) {
    std::cerr << "kolo checkpoint convert: left out " << what << "\n";
  };
  for (const std::string& name : contents.left_out)
    left_out("'" + printable(name) +
             "': it is neither a tensor that this format supports, nor a number, nor a text");
  const std::size_t notes = contents.notes.size() - contents.notes.count(kModulesNote);
  if (format_of(to) == Format::kTorch && notes > 0)
    left_out(std::to_string(notes) + " numbers and texts: .pt files hold only tensors");
}

}  // namespace kolo::tools
