#include "coordinator/control_plane.hpp"

#include "core/log.hpp"

namespace kolo {

ControlPlane::ControlPlane(Transport& transport, const Options& options)
    : transport_(transport), participant_(transport.rank(), options.cache_capacity) {
  if (transport.rank() == 0)
    negotiator_.emplace(Negotiator::Options{options.ranks, options.limits});
}

Status ControlPlane::advance(bool& moved, std::vector<Participant::Action>& actions) {
  Status status = deliver_report(moved);
  if (status.is_ok()) status = receive(negotiator_ ? kReportTag : kDecisionTag, moved, actions);
  if (status.is_ok() && negotiator_) status = decide(moved, actions);
  if (status.is_ok()) status = retire_sent(moved);
  return status;
}

std::string ControlPlane::say_bye() {
  if (!negotiator_) return "other ranks";
  bye_wanted_ = true;
  return negotiator_->remaining_ranks();
}

void ControlPlane::say_abort(const std::string& message) {
  const auto tell = [&](const Bytes& bytes, int peer, Tag tag) {
    const Status status = send(std::make_shared<const Bytes>(bytes), peer, tag);
    if (!status.is_ok())
      log::debug("abort message to rank " + std::to_string(peer) + ": " + status.message());
  };
  if (!negotiator_) return tell(wire::encode(wire::Report{wire::Abort{message}}), 0, kReportTag);
  const Bytes bytes = wire::encode(wire::Decisions{wire::Abort{message}});
  for (int peer = 1; peer < transport_.size(); ++peer) tell(bytes, peer, kDecisionTag);
}

Status ControlPlane::deliver_report(bool& moved) {
  const wire::Report report = participant_.take_report();
  if (report.empty()) return Status::ok();
  moved = true;
  if (negotiator_) return negotiator_->handle(0, report);
  return send(std::make_shared<const Bytes>(wire::encode(report)), 0, kReportTag);
}

Status ControlPlane::receive(Tag tag, bool& moved, std::vector<Participant::Action>& actions) {
  if (transport_.size() == 1) return Status::ok();
  while (true) {
    std::optional<Arrival> arrival;
    if (Status s = transport_.probe(tag, arrival); !s.is_ok()) return s;
    if (!arrival) break;
    Incoming& message = inbox_.emplace_back();
    message.bytes.resize(arrival->bytes);
    message.peer = arrival->peer;
    Status s = transport_.receive(message.bytes.data(), arrival->bytes, arrival->peer, tag,
                                  message.ticket);
    if (!s.is_ok()) return s;
    moved = true;
  }
  return process_arrived(moved, actions);
}

Status ControlPlane::process_arrived(bool& moved, std::vector<Participant::Action>& actions) {
  while (!inbox_.empty()) {
    Status s;
    const Progress progress = transport_.poll(inbox_.front().ticket, s);
    if (progress == Progress::kWaiting) break;
    if (progress == Progress::kFailed) return s;
    moved = true;
    const Incoming message = std::move(inbox_.front());
    inbox_.pop_front();
    if (Status t = process(message, actions); !t.is_ok()) return t;
  }
  return Status::ok();
}

Status ControlPlane::process(const Incoming& message, std::vector<Participant::Action>& actions) {
  if (negotiator_) {
    wire::Report report;
    if (Status s = wire::decode(message.bytes, report); !s.is_ok()) return s;
    return negotiator_->handle(message.peer, report);
  }
  wire::Decisions decisions;
  if (Status s = wire::decode(message.bytes, decisions); !s.is_ok()) return s;
  return participant_.apply(decisions, actions);
}

Status ControlPlane::decide(bool& moved, std::vector<Participant::Action>& actions) {
  wire::Decisions decisions = negotiator_->take_decisions();
  if (std::exchange(bye_wanted_, false)) decisions.emplace_back(wire::Bye{});
  if (decisions.empty()) return Status::ok();
  moved = true;
  const auto bytes = std::make_shared<const Bytes>(wire::encode(decisions));
  for (int peer = 1; peer < transport_.size(); ++peer) {
    if (Status s = send(bytes, peer, kDecisionTag); !s.is_ok()) return s;
  }
  return participant_.apply(decisions, actions);
}

Status ControlPlane::send(const std::shared_ptr<const Bytes>& bytes, int peer, Tag tag) {
  Outgoing& message = outbox_.emplace_back(Outgoing{bytes, {}});
  return transport_.send(bytes->data(), bytes->size(), peer, tag, message.ticket);
}

Status ControlPlane::retire_sent(bool& moved) {
  while (!outbox_.empty()) {
    Status s;
    const Progress progress = transport_.poll(outbox_.front().ticket, s);
    if (progress == Progress::kWaiting) break;
    if (progress == Progress::kFailed) return s;
    outbox_.pop_front();
    moved = true;
  }
  return Status::ok();
}

}  // namespace kolo
