#include "checkpoint/components.hpp"

namespace kolo::checkpoint {
namespace {

// LibTorch's schedulers cannot save their state. A derived class may name protected members, and so
// reach them in any scheduler. Private members are reached through explicit instantiation, which
// the standard exempts from access checks ([temp.spec.general]/6).
class StepCount : public torch::optim::LRScheduler {
 public:
  static constexpr auto kMember = &StepCount::step_count_;
};

using Plateau = torch::optim::ReduceLROnPlateauScheduler;

template <typename Tag>
struct Reach {
  static typename Tag::Member member;
};
template <typename Tag>
typename Tag::Member Reach<Tag>::member = nullptr;

template <typename Tag, typename Tag::Member kPointer>
struct Give {
  struct Now {
    Now() { Reach<Tag>::member = kPointer; }
  };
  static Now now;
};
template <typename Tag, typename Tag::Member kPointer>
typename Give<Tag, kPointer>::Now Give<Tag, kPointer>::now;

struct Best {
  using Member = float Plateau::*;
};
struct CooldownCounter {
  using Member = int Plateau::*;
};
struct LastEpoch {
  using Member = int Plateau::*;
};
struct BadEpochs {
  using Member = int Plateau::*;
};
template struct Give<Best, &Plateau::best>;
template struct Give<CooldownCounter, &Plateau::cooldown_counter>;
template struct Give<LastEpoch, &Plateau::last_epoch>;
template struct Give<BadEpochs, &Plateau::num_bad_epochs>;

class SchedulerComponent : public Component {
 public:
  SchedulerComponent(const std::string& name, torch::optim::LRScheduler& scheduler)
      : Component(name), scheduler_(scheduler) {}

  void capture(Capture& capture) const override {
    capture.value(inside({"step_count"}),
                  static_cast<std::int64_t>(scheduler_.*StepCount::kMember));
  }
  // The optimizer saves the learning rate itself.
  void restore(Request& request) override {
    request.value_of<std::int64_t>(inside({"step_count"}), [this](std::int64_t count) {
      scheduler_.*StepCount::kMember = static_cast<unsigned>(count);
    });
  }

 private:
  torch::optim::LRScheduler& scheduler_;  // the program's, which outlives the checkpoint
};

class PlateauComponent : public Component {
 public:
  PlateauComponent(const std::string& name, Plateau& scheduler)
      : Component(name), scheduler_(scheduler) {}

  void capture(Capture& capture) const override {
    capture.value(inside({"best"}), static_cast<double>(scheduler_.*Reach<Best>::member));
    capture.value(inside({"cooldown_counter"}),
                  std::int64_t{scheduler_.*Reach<CooldownCounter>::member});
    capture.value(inside({"last_epoch"}), std::int64_t{scheduler_.*Reach<LastEpoch>::member});
    capture.value(inside({"num_bad_epochs"}), std::int64_t{scheduler_.*Reach<BadEpochs>::member});
  }
  void restore(Request& request) override {
    request.value_of<double>(inside({"best"}), [this](double best) {
      scheduler_.*Reach<Best>::member = static_cast<float>(best);
    });
    count(request, "cooldown_counter", Reach<CooldownCounter>::member);
    count(request, "last_epoch", Reach<LastEpoch>::member);
    count(request, "num_bad_epochs", Reach<BadEpochs>::member);
  }

 private:
  void count(Request& request, const char* key, int Plateau::*member) {
    request.value_of<std::int64_t>(inside({key}), [this, member](std::int64_t number) {
      scheduler_.*member = static_cast<int>(number);
    });
  }

  Plateau& scheduler_;  // the program's, which outlives the checkpoint
};

}  // namespace

Added scheduler_component(const std::string& name, torch::optim::LRScheduler& scheduler) {
  return std::make_unique<SchedulerComponent>(name, scheduler);
}
Added scheduler_component(const std::string& name, Plateau& scheduler) {
  return std::make_unique<PlateauComponent>(name, scheduler);
}

}  // namespace kolo::checkpoint
