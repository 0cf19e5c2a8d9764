// A holder that keeps one object.
#pragma once

#include <memory>
#include <utility>

#include "engine/operation.hpp"

namespace kolo {

template <typename Object>
class Holding final : public Holder {
 public:
  explicit Holding(std::shared_ptr<Object> object) : object_(std::move(object)) {}
  void let_go() override { object_.reset(); }

 private:
  std::shared_ptr<Object> object_;
};

}  // namespace kolo
