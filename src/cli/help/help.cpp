// `kolo help` and its topics.
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/help/horovod.hpp"
#include "cli/help/man_page.hpp"
#include "cli/usage_error.hpp"
#include "core/config.hpp"

#ifndef KOLO_VERSION
#define KOLO_VERSION "unknown"
#endif

namespace kolo::cli {
namespace {

std::string settings_text() {
  std::ostringstream text;
  text << "Environment variables that kolo reads; each begins with its default.\n\n";
  for (const Setting& setting : settings()) {
    text << setting.name << " = " << setting.default_value << "\n    " << setting.help << "\n    "
         << setting.type << ", " << setting.range;
    if (!setting.horovod_name.empty()) text << "; or " << setting.horovod_name;
    text << "\n";
  }
  return text.str();
}

void show_usage() {
  std::cout << "Usage: kolo COMMAND [options]\n\n"
               "Distributed training for LibTorch programs in C++, over MPI.\n\nCommands:\n";
  for (const Command& command : commands()) {
    std::cout << "  " << command.name << std::string(12 - command.name.size(), ' ')
              << command.summary << "\n";
  }
  std::cout
      << "  help        this; 'kolo help config' lists all settings of the environment,\n"
         "              'kolo help horovod' lists kolo's counterparts of Horovod's calls, options "
         "and\n              variables\n\n"
         "'kolo COMMAND --help' explains a command; 'kolo --version' shows the version.\n";
}

std::string topics() {
  std::string all;
  for (const Command& command : commands()) all += command.name + ", ";
  return all + "config [--markdown], horovod, man [COMMAND], completion";
}

}  // namespace

const char* version() {
  return KOLO_VERSION;
}

int help_command(const Arguments& arguments) {
  if (arguments.empty()) {
    show_usage();
    return 0;
  }
  const std::map<Arguments, std::function<std::string()>> pages = {
      {{"config"}, settings_text},
      {{"config", "--markdown"}, configuration_page},
      {{"horovod"}, horovod_text},
      {{"completion"}, [] { return bash_completion(commands()); }},
      {{"man"}, [] { return man_page_of_kolo(commands(), KOLO_VERSION); }},
  };
  if (const auto page = pages.find(arguments); page != pages.end()) {
    std::cout << page->second();
    return 0;
  }
  for (const Command& command : commands()) {
    if (arguments == Arguments{command.name}) {
      std::cout << help_of(command.name);
      return 0;
    }
    if (arguments == Arguments{"man", command.name}) {
      std::cout << man_page(command, KOLO_VERSION);
      return 0;
    }
  }
  throw UsageError("no help on '" + arguments.back() + "'; topics: " + topics());
}

}  // namespace kolo::cli
