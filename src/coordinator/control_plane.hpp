// The control plane of a group: carries reports of the participants to the coordinator and its
// decisions to all ranks. Used by the thread that drives the engine; no function blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/control_channel.hpp"
#include "coordinator/negotiator.hpp"
#include "coordinator/participant.hpp"

namespace kolo {

class ControlPlane {
 public:
  struct Options {
    std::vector<int> ranks;  // the group's, in the world; for messages
    PlanLimits limits;
    std::size_t cache_capacity = 16384;
  };

  ControlPlane(std::unique_ptr<ControlChannel> channel, const Options& options);

  Participant& participant() { return participant_; }
  bool coordinates() const { return negotiator_.has_value(); }

  // Sends, receives and decides without waiting. Appends the actions.
  Status advance(bool& moved, std::vector<Participant::Action>& actions);

  // On the coordinator: starts or stops recording arrivals; and returns those since the last call.
  void keep_arrivals(bool keep) {
    if (negotiator_) negotiator_->keep_arrivals(keep);
  }
  std::vector<Negotiator::Arrival> take_arrivals() {
    return negotiator_ ? negotiator_->take_arrivals() : std::vector<Negotiator::Arrival>();
  }

  // On the coordinator; see Negotiator.
  std::vector<std::pair<int, std::vector<std::uint64_t>>> take_measures() {
    return negotiator_ ? negotiator_->take_measures()
                       : std::vector<std::pair<int, std::vector<std::uint64_t>>>();
  }
  std::vector<Stall> stalls(Clock::time_point before) const {
    return negotiator_ ? negotiator_->stalls(before) : std::vector<Stall>();
  }
  void count_from(Clock::time_point now) {
    if (negotiator_) negotiator_->count_from(now);
  }
  void fail_different_kinds(Clock::time_point before) { negotiator_->fail_different_kinds(before); }
  void say_stalled(const std::string& text) { negotiator_->say_stalled(text); }

  // Whether messages of this rank are still in flight.
  bool sending() const { return channel_->sending() || bye_wanted_; }

  // Reports a failure to the other ranks, as far as messages still get through, so that they do not
  // wait for this rank. No other function may be called afterwards.
  void say_abort(const std::string& message);

  // On the coordinator: sends bye although some ranks have not left. Returns the ranks that have
  // not, as far as this rank knows.
  std::string say_bye();

 private:
  Status deliver_report(bool& moved);
  Status receive(bool& moved, std::vector<Participant::Action>& actions);
  Status process(const ControlChannel::Message& message, std::vector<Participant::Action>& actions);
  Status decide(bool& moved, std::vector<Participant::Action>& actions);

  const std::unique_ptr<ControlChannel> channel_;
  Participant participant_;
  std::optional<Negotiator> negotiator_;  // on the coordinator, rank 0
  bool bye_wanted_ = false;
};

}  // namespace kolo
