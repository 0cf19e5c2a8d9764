#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/thread_annotations.hpp"

namespace kolo::detail {

// One backward() of the program, from its call to its return. It includes every backward() that one
// of its nodes calls in turn, as activation checkpointing does, on whatever thread.
class BackwardPass {
 public:
  // Acts at the end of each pass that has reached it. All functions are called on the thread that
  // has called backward().
  class Member {
   public:
    virtual ~Member() = default;
    // Members are called in the order of their names, which ranks have in common.
    virtual const std::string& name() const = 0;
    // Called if autograd has succeeded. All members submit before the first one waits.
    virtual void submit() = 0;
    // Called after submit(), even if a submit() has thrown.
    virtual void wait() = 0;
    // backward() ends with an exception. Called instead of submit() and wait().
    virtual void fail(const std::string& why) = 0;
  };

  // From now on every backward() is a pass. Cheap when called again.
  static void watch();

  // The pass that the calling thread works for; null outside of one. Valid while the caller runs.
  static BackwardPass* current();

  // Any thread. Returns false if the pass has ended already: after an error, autograd returns while
  // threads of other devices still run.
  bool add(std::shared_ptr<Member> member) KOLO_EXCLUDES(mutex_);

  // Ends the pass; called once. end() throws the first error of its members; fail() none.
  void end() KOLO_EXCLUDES(mutex_);
  void fail(const std::string& why) noexcept KOLO_EXCLUDES(mutex_);

 private:
  std::vector<std::shared_ptr<Member>> take_members() KOLO_EXCLUDES(mutex_);

  Mutex mutex_;
  bool ended_ KOLO_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<Member>> members_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo::detail
