#pragma once

#include <stdexcept>

namespace kolo::cli {

// What the user asked for cannot be: the message says why and what to do. Ends kolo with exit
// code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kolo::cli
