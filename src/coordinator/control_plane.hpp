// The control plane of a group on the wire: carries reports of the participants to the coordinator
// and its decisions to all. Used by who drives the engine; nothing blocks.
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

  // Sends, receives and decides what can be without waiting. Actions are appended.
  Status advance(bool& moved, std::vector<Participant::Action>& actions);

  // Coordinator: from now on who comes with what is kept, or not; and what was since the last call.
  void keep_arrivals(bool keep) {
    if (negotiator_) negotiator_->keep_arrivals(keep);
  }
  std::vector<Negotiator::Arrival> take_arrivals() {
    return negotiator_ ? negotiator_->take_arrivals() : std::vector<Negotiator::Arrival>();
  }

  // Coordinator: see Negotiator.
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

  // Whether messages of this rank are still under way.
  bool sending() const { return channel_->sending() || bye_wanted_; }

  // After a failure: tells the others, as far as messages still get through, so that they do not
  // wait for this rank. Nothing else may be called afterwards.
  void say_abort(const std::string& message);

  // Coordinator: tells everyone that it goes, though not all have left. Says which have not, as far
  // as this rank knows.
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
