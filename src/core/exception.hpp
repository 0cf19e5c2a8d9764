#pragma once

#include <exception>
#include <string>

namespace kolo {

// Returns what the exception says. A program may also throw what is not a std::exception.
inline std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace kolo
