// Ends operations: finishes their results, frees their names, and wakes the threads that wait.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/launch.hpp"
#include "engine/mailbox.hpp"
#include "engine/operation.hpp"
#include "engine/operation_recorder.hpp"

namespace kolo {

// Placeholders of ranks that have joined have nothing to end. Used by the thread that drives.
class Completion {
 public:
  // Both outlive this.
  Completion(Mailbox& mailbox, OperationRecorder& recorder)
      : mailbox_(mailbox), recorder_(recorder) {}

  // The errors of operations whose results could not be finished.
  using Unfinished = std::unordered_map<const Operation*, Status>;

  // The members of a collective that has been carried out: both steps.
  void end(std::span<const LaunchMember> members);
  // First step: lets the operations finish their results.
  static Unfinished finish(std::span<const LaunchMember> members);
  // Second step: frees the names, and then wakes the waiting threads.
  void release(std::span<const LaunchMember> members, const Unfinished& unfinished);

  // Ends an operation other than by its collective.
  void end(const std::shared_ptr<Operation>& operation, const Status& status);

 private:
  Mailbox& mailbox_;
  OperationRecorder& recorder_;
  std::vector<Operation*> over_;  // within release(); keeps its memory
};

}  // namespace kolo
