#include "tools/command.hpp"

#include <boost/program_options/errors.hpp>
#include <iostream>

#include "core/standard_streams.hpp"
#include "tools/printable.hpp"

namespace kolo::tools {
namespace {

int run(const std::string& name, const std::string& usage, const std::function<int()>& command) {
  try {
    return command();
  } catch (const UsageError& error) {
    std::cerr << name << ": " << error.what() << "\n\n" << usage;
  } catch (const boost::program_options::error& error) {
    std::cerr << name << ": " << error.what() << "\n\n" << usage;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << printable(error.what(), "\n") << "\n";
  }
  return kUsageError;
}

}  // namespace

int run_command(const std::string& name, const std::string& usage,
                const std::function<int()>& command) {
  open_standard_streams();
  return flush_standard_output(name, run(name, usage, command));
}

}  // namespace kolo::tools
