// `kolo checkpoint ...`, `kolo data ...` and `kolo trace ...`: run programs that lie beside this
// one.
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "cli/commands.hpp"
#include "cli/process/system.hpp"

namespace kolo::cli {
namespace {

[[noreturn]] void become(const char* name, const Arguments& arguments) {
  const std::string program = own_directory() + "/" + name;
  std::vector<const char*> words = {program.c_str()};
  for (const std::string& word : arguments) words.push_back(word.c_str());
  words.push_back(nullptr);
  ::execv(program.c_str(), const_cast<char* const*>(words.data()));
  throw std::runtime_error("cannot start " + program + ": " +
                           std::generic_category().message(errno));
}

}  // namespace

int checkpoint_command(const Arguments& arguments) {
  become("kolo-checkpoint", arguments);
}

int data_command(const Arguments& arguments) {
  become("kolo-data", arguments);
}

int trace_command(const Arguments& arguments) {
  become("kolo-trace", arguments);
}

}  // namespace kolo::cli
