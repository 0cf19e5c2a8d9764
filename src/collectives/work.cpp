#include "collectives/work.hpp"

#include <utility>

namespace kolo {
namespace {

class Pair final : public Work {
 public:
  Pair(std::unique_ptr<Work> first, std::unique_ptr<Work> then)
      : first_(std::move(first)), then_(std::move(then)) {}

  Status start() override { return first_->start(); }

  Progress step(Status& status) override {
    if (first_ == nullptr) return then_->step(status);
    const Progress progress = first_->step(status);
    if (progress != Progress::kDone) return progress;
    first_.reset();
    status = then_->start();
    return status.is_ok() ? Progress::kAdvanced : Progress::kFailed;
  }

  std::optional<int> waits_for() const override {
    return first_ == nullptr ? then_->waits_for() : first_->waits_for();
  }
  BufferTimes buffer_times() const override { return then_->buffer_times(); }

 private:
  std::unique_ptr<Work> first_;  // null when it is done
  const std::unique_ptr<Work> then_;
};

}  // namespace

std::unique_ptr<Work> one_after_the_other(std::unique_ptr<Work> first, std::unique_ptr<Work> then) {
  return std::make_unique<Pair>(std::move(first), std::move(then));
}

}  // namespace kolo
