#pragma once

#include <exception>

namespace kolo::detail {

// Keeps the first error of several steps that must all be tried.
class FirstError {
 public:
  template <typename Function>
  void catch_from(Function&& function) {
    try {
      function();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() {
    if (first_) std::rethrow_exception(first_);
  }
  bool none() const { return !first_; }

 private:
  std::exception_ptr first_;
};

}  // namespace kolo::detail
