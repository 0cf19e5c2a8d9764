// kolo-checkpoint: the program that `kolo checkpoint` runs. It needs no LibTorch. For LibTorch's
// files it starts kolo-convert, which does.
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "kolo/error.h"
#include "tools/checkpoint/contents.hpp"
#include "tools/checkpoint/convert.hpp"
#include "tools/checkpoint/inspect.hpp"
#include "tools/checkpoint/safetensors.hpp"
#include "tools/command.hpp"

namespace po = boost::program_options;

namespace {

constexpr const char* kUsage =
    "Usage: kolo checkpoint ls FOLDER\n"
    "       kolo checkpoint info FILE\n"
    "       kolo checkpoint verify FILE|FOLDER     exit code 1 if something is damaged,\n"
    "                                           or of a newer version\n"
    "       kolo checkpoint diff FILE FILE         exit code 1 if tensors or values differ\n"
    "       kolo checkpoint convert FROM TO [--component NAME] [--module]\n\n"
    "convert takes the formats from the files' names: .h5 is a checkpoint of kolo, .safetensors\n"
    "that format, .pt and .pth are files of Python's torch.save and of torch::save. It writes a\n"
    "state_dict, which Python's torch.load(weights_only=True) reads, and with --module an archive\n"
    "that C++'s torch::load reads into a module. --component names the component whose tensors it\n"
    "reads from a checkpoint or writes into one (default: model).\n";

using kolo::tools::UsageError;

struct Words {
  std::string command;
  std::vector<std::string> paths;
  std::string component = "model";
  bool module = false;
  bool help = false;
};

Words parse(int argc, char** argv) {
  Words words;
  po::options_description all("Options");
  auto add = all.add_options();
  add("help,h", po::bool_switch(&words.help));
  add("component", po::value(&words.component));
  add("module", po::bool_switch(&words.module));
  add("command", po::value(&words.command));
  add("path", po::value(&words.paths));
  po::positional_options_description positions;
  positions.add("command", 1).add("path", -1);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional(positions).run(), values);
  po::notify(values);
  return words;
}

// Becomes kolo-convert. Does not return; throws if kolo-convert cannot be started.
void start_converter(const Words& words) {
  const std::string program =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kolo-convert").string();
  const char* arguments[] = {program.c_str(),
                             words.paths[0].c_str(),
                             words.paths[1].c_str(),
                             words.component.c_str(),
                             words.module ? "module" : "state_dict",
                             nullptr};
  ::execv(program.c_str(), const_cast<char* const*>(arguments));
  throw std::runtime_error("files of LibTorch need " + program + ", which cannot be started: " +
                           std::generic_category().message(errno) + "; build kolo with LibTorch");
}

int convert(const Words& words) {
  using namespace kolo::tools;
  const std::string& from = words.paths[0];
  const std::string& to = words.paths[1];
  const Format source = format_of(from);
  const Format target = format_of(to);
  if (words.module && target != Format::kTorch)
    throw UsageError("--module is for .pt and .pth files, not for " + to);
  if (source == Format::kTorch || target == Format::kTorch) start_converter(words);
  const Contents contents = source == Format::kCheckpoint
                                ? read_checkpoint(from, words.component)
                                : parse_safetensors(read_file(from), from);
  if (target == Format::kCheckpoint) {
    write_checkpoint(to, words.component, contents);
  } else {
    write_file(to, make_safetensors(contents));
  }
  report(contents, from, to);
  return 0;
}

int run(const Words& words) {
  using namespace kolo::tools;
  const auto expect = [&](std::size_t paths) {
    if (words.paths.size() != paths) {
      throw UsageError("'" + words.command + "' takes " + std::to_string(paths) +
                       (paths == 1 ? " path" : " paths") + ", not " +
                       std::to_string(words.paths.size()));
    }
  };
  if (words.command == "ls") return expect(1), list(words.paths[0], std::cout);
  if (words.command == "info") return expect(1), info(words.paths[0], std::cout);
  if (words.command == "verify") return expect(1), verify(words.paths[0], std::cout);
  if (words.command == "diff") return expect(2), diff(words.paths[0], words.paths[1], std::cout);
  if (words.command == "convert") return expect(2), convert(words);
  throw UsageError(words.command.empty() ? "no command given"
                                         : "unknown command '" + words.command + "'");
}

}  // namespace

int main(int argc, char** argv) {
  return kolo::tools::run_command("kolo checkpoint", kUsage, [&] {
    const Words words = parse(argc, argv);
    if (!words.help) return run(words);
    std::cout << kUsage;
    return 0;
  });
}
