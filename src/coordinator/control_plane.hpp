// The control plane of a group on the wire: carries reports of the participants to the coordinator
// and its decisions to all. Used by the engine thread alone; nothing blocks.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/transport.hpp"
#include "coordinator/negotiator.hpp"
#include "coordinator/participant.hpp"

namespace kolo {

class ControlPlane {
 public:
  // Tags of the two directions. Collectives use others.
  static constexpr Tag kReportTag = 0;
  static constexpr Tag kDecisionTag = 1;
  static constexpr Tag kFirstFreeTag = 2;

  struct Options {
    std::vector<int> ranks;  // the group's, in the world; for messages
    PlanLimits limits;
    std::size_t cache_capacity = 16384;
  };

  ControlPlane(Transport& transport, const Options& options);

  Participant& participant() { return participant_; }
  bool coordinates() const { return negotiator_.has_value(); }

  // Sends, receives and decides what can be without waiting. Actions are appended.
  Status advance(bool& moved, std::vector<Participant::Action>& actions);

  // Whether messages of this rank are still under way.
  bool sending() const { return !outbox_.empty() || bye_wanted_; }

  // After a failure: tells the others, as far as messages still get through, so that they do not
  // wait for this rank. Nothing else may be called afterwards.
  void say_abort(const std::string& message);

  // Coordinator: tells everyone that it goes, though not all have left. Says which have not, as far
  // as this rank knows.
  std::string say_bye();

 private:
  using Bytes = std::vector<std::byte>;

  struct Outgoing {
    std::shared_ptr<const Bytes> bytes;
    Ticket ticket;
  };
  struct Incoming {
    Bytes bytes;
    int peer = 0;
    Ticket ticket;
  };

  Status deliver_report(bool& moved);
  Status receive(Tag tag, bool& moved, std::vector<Participant::Action>& actions);
  Status process_arrived(bool& moved, std::vector<Participant::Action>& actions);
  Status process(const Incoming& message, std::vector<Participant::Action>& actions);
  Status decide(bool& moved, std::vector<Participant::Action>& actions);
  Status send(const std::shared_ptr<const Bytes>& bytes, int peer, Tag tag);
  Status retire_sent(bool& moved);

  Transport& transport_;  // outlives this
  Participant participant_;
  std::optional<Negotiator> negotiator_;  // on the coordinator, rank 0
  std::deque<Outgoing> outbox_;
  std::deque<Incoming> inbox_;  // messages that were found and are being received, in order
  bool bye_wanted_ = false;
};

}  // namespace kolo
