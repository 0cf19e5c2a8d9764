// kolo-convert FROM TO COMPONENT state_dict|module: conversions that need LibTorch. kolo-checkpoint
// starts this program. The last word says what a .pt file becomes.
#include <exception>
#include <iostream>
#include <string>

#include "core/standard_streams.hpp"
#include "tools/checkpoint/contents.hpp"
#include "tools/checkpoint/convert.hpp"
#include "tools/checkpoint/safetensors.hpp"
#include "tools/checkpoint/torch_archives.hpp"
#include "tools/printable.hpp"

namespace {

using namespace kolo::tools;

Contents read(const std::string& path, const std::string& component) {
  switch (format_of(path)) {
    case Format::kCheckpoint:
      return read_checkpoint(path, component);
    case Format::kSafetensors:
      return parse_safetensors(read_file(path), path);
    case Format::kTorch:
      break;
  }
  return read_torch(path);
}

void write(const std::string& path, const std::string& component, bool is_module,
           const Contents& contents) {
  switch (format_of(path)) {
    case Format::kCheckpoint:
      return write_checkpoint(path, component, contents);
    case Format::kSafetensors:
      return write_file(path, make_safetensors(contents));
    case Format::kTorch:
      break;
  }
  is_module ? write_module(path, contents) : write_state_dict(path, contents);
}

int run(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "kolo-convert: use `kolo checkpoint convert FROM TO`\n";
    return 2;
  }
  try {
    const Contents contents = read(argv[1], argv[3]);
    write(argv[2], argv[3], std::string(argv[4]) == "module", contents);
    report(contents, argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "kolo checkpoint convert: " << printable(error.what(), "\n") << "\n";
    return 2;
  }
}

}  // namespace

int main(int argc, char** argv) {
  kolo::open_standard_streams();
  return kolo::flush_standard_output("kolo checkpoint convert", run(argc, argv));
}
