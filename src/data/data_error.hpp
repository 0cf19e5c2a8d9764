// Errors of data files: the problem and its remedy.
#pragma once

#include <string>
#include <system_error>

#include "kolo/error.h"

namespace kolo::data {

inline constexpr auto kGetAgain = "the file is damaged or its copy was cut short: get it again";

[[noreturn]] inline void fail(const std::string& name, const std::string& reason,
                              const std::string& mend) {
  throw DataError(name + ": " + reason + "; " + mend);
}

[[noreturn]] inline void fail_system(const std::string& name, const char* what, int error) {
  fail(name, std::string(what) + ": " + std::generic_category().message(error),
       "check the path, the file's permissions and its disk");
}

}  // namespace kolo::data
