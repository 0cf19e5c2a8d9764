#include "kolo/launch.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "core/cores.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "torch_ops/session/process_device.hpp"
#include "trainer/launch_choice.hpp"

namespace kolo {
namespace {

namespace files = std::filesystem;

trainer::Machine this_machine() {
  trainer::Machine machine;
  machine.gpus = usable_cuda_devices();
  machine.numa_nodes = trainer::count_numa_nodes("/sys/devices/system/node", cpu_access().cores);
  return machine;
}

// Returns bin/kolo from the nearest folder above libkolo.so that has it: <prefix>/bin/kolo for
// <prefix>/lib/libkolo.so. Otherwise returns a name that is searched in PATH.
std::string kolo_program() {
  Dl_info library{};
  const auto* const here = reinterpret_cast<const void*>(&detail::launch);
  if (::dladdr(here, &library) != 0 && library.dli_fname != nullptr) {
    std::error_code error;
    for (files::path folder = files::canonical(library.dli_fname, error).parent_path();
         folder.has_relative_path(); folder = folder.parent_path()) {
      const files::path program = folder / "bin" / "kolo";
      if (::access(program.c_str(), X_OK) == 0) return program.string();
    }
  }
  return "kolo";
}

// Replaces this process by kolo run, which then gets its signals and provides its exit code.
[[noreturn]] void become_kolo_run(const std::string& program, const trainer::LaunchChoice& choice) {
  std::vector<std::string> words{kolo_program(), "run"};
  words.insert(words.end(), choice.run_options.begin(), choice.run_options.end());
  words.push_back(program);
  words.insert(words.end(), choice.arguments.begin(), choice.arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  throw FileError(
      "launch: the program " + words.front() +
      ", which starts the ranks, cannot be run: " + std::generic_category().message(errno) +
      "; install kolo's programs, put them on PATH, or start this program with mpirun");
}

}  // namespace

int detail::launch(int argc, char** argv, const std::function<int()>& train) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before the program has threads
  const auto variable = [](const char* name) -> const char* { return std::getenv(name); };
  const trainer::LaunchChoice choice = trainer::choose_launch(arguments, variable, this_machine);
  if (!choice.is_rank) become_kolo_run(files::canonical("/proc/self/exe").string(), choice);
  init();
  const int code = train();
  shutdown();
  return code;
}

}  // namespace kolo
