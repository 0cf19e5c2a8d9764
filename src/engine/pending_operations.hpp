// The operations of a group that were submitted and not launched yet, by token.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "coordinator/participant.hpp"
#include "engine/operation.hpp"

namespace kolo {

class PendingOperations {
 public:
  Participant::Token keep(const std::shared_ptr<Operation>& operation) {
    if (free_.empty()) {
      operations_.emplace_back();
      free_.push_back(operations_.size());
    }
    const Participant::Token token = free_.back();
    free_.pop_back();
    operations_[token - 1] = operation;
    return token;
  }
  std::shared_ptr<Operation> take(Participant::Token token) {
    free_.push_back(token);
    return std::exchange(operations_[token - 1], nullptr);
  }
  // All of them, with a null for each free token.
  std::vector<std::shared_ptr<Operation>> take_all() {
    free_.clear();
    return std::exchange(operations_, {});
  }

  bool is_empty() const { return free_.size() == operations_.size(); }
  // With a null for each free token.
  const std::vector<std::shared_ptr<Operation>>& all() const { return operations_; }

 private:
  std::vector<std::shared_ptr<Operation>> operations_;  // by token - 1; or null
  std::vector<Participant::Token> free_;
};

}  // namespace kolo
