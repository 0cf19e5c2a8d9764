#include "coordinator/control_plane.hpp"

#include <utility>

#include "core/log.hpp"

namespace kolo {

ControlPlane::ControlPlane(std::unique_ptr<ControlChannel> channel, const Options& options)
    : channel_(std::move(channel)), participant_(channel_->rank(), options.cache_capacity) {
  if (channel_->rank() == 0)
    negotiator_.emplace(Negotiator::Options{options.ranks, options.limits});
}

Status ControlPlane::advance(bool& moved, std::vector<Participant::Action>& actions) {
  Status status = deliver_report(moved);
  if (status.is_ok()) status = receive(moved, actions);
  if (status.is_ok() && negotiator_) status = decide(moved, actions);
  if (status.is_ok()) status = channel_->advance(moved);
  return status;
}

std::string ControlPlane::say_bye() {
  if (!negotiator_) return "other ranks";
  bye_wanted_ = true;
  return negotiator_->remaining_ranks();
}

void ControlPlane::say_abort(const std::string& message) {
  const Status status =
      channel_->send(negotiator_ ? wire::encode(wire::Decisions{wire::Abort{message}})
                                 : wire::encode(wire::Report{wire::Abort{message}}));
  if (!status.is_ok()) log::debug("abort message: " + status.message());
}

Status ControlPlane::deliver_report(bool& moved) {
  const wire::Report report = participant_.take_report();
  if (report.empty()) return Status::ok();
  moved = true;
  if (negotiator_) return negotiator_->handle(0, report, Clock::now());
  return channel_->send(wire::encode(report));
}

Status ControlPlane::receive(bool& moved, std::vector<Participant::Action>& actions) {
  std::optional<ControlChannel::Message> message;
  while (true) {
    if (Status s = channel_->receive(message); !s.is_ok() || !message) return s;
    moved = true;
    if (Status s = process(*message, actions); !s.is_ok()) return s;
  }
}

Status ControlPlane::process(const ControlChannel::Message& message,
                             std::vector<Participant::Action>& actions) {
  if (negotiator_) {
    wire::Report report;
    if (Status s = wire::decode(message.bytes, report); !s.is_ok()) return s;
    return negotiator_->handle(message.from, report, Clock::now());
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
  if (Status s = channel_->send(wire::encode(decisions)); !s.is_ok()) return s;
  return participant_.apply(decisions, actions);
}

}  // namespace kolo
