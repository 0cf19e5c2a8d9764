#pragma once

#include <stdexcept>

namespace kolo::cli {

// A request that cannot be met. The message gives the reason and the remedy. kolo ends with exit
// code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kolo::cli
