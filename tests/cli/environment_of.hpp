// A Lookup over given variables, for tests.
#pragma once

#include <map>
#include <string>

#include "cli/process/environment.hpp"

namespace kolo::cli {

inline Lookup environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

}  // namespace kolo::cli
