#include "tools/command.hpp"

#include <boost/program_options/errors.hpp>
#include <iostream>

namespace kolo::tools {

int run_command(const std::string& name, const std::string& usage,
                const std::function<int()>& command) {
  try {
    return command();
  } catch (const UsageError& error) {
    std::cerr << name << ": " << error.what() << "\n\n" << usage;
  } catch (const boost::program_options::error& error) {
    std::cerr << name << ": " << error.what() << "\n\n" << usage;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << "\n";
  }
  return kUsageError;
}

}  // namespace kolo::tools
