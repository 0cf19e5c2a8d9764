#include "engine/completion.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/launched.hpp"

namespace kolo {
namespace {

// A bucket has many members. This many end at a time, while they are in the cache.
constexpr std::size_t kEndTogether = 32;

Status finish_one(const Operation& operation) {
  try {
    operation.finish();
  } catch (const std::exception& error) {
    return Status::internal("finishing tensor '" + operation.name + "': " + error.what());
  }
  return Status::ok();
}

}  // namespace

void Completion::end(std::span<const LaunchMember> members) {
  for (std::size_t begin = 0; begin < members.size(); begin += kEndTogether) {
    const auto part = members.subspan(begin, std::min(kEndTogether, members.size() - begin));
    release(part, finish(part));
  }
}

Completion::Unfinished Completion::finish(std::span<const LaunchMember> members) {
  Unfinished unfinished;
  for (const LaunchMember& member : members) {
    const Operation& operation = *member.operation;
    if (operation.placeholder || !operation.finish || member.absent_everywhere) continue;
    Status status = finish_one(operation);
    if (!status.is_ok()) unfinished.emplace(&operation, std::move(status));
  }
  return unfinished;
}

// Takes the mailbox's lock once for all members.
void Completion::release(std::span<const LaunchMember> members, const Unfinished& unfinished) {
  over_.clear();
  for (const LaunchMember& member : members) {
    if (!member.operation->placeholder) over_.push_back(member.operation.get());
  }
  mailbox_.release(over_);
  for (const LaunchMember& member : members) {
    Operation* const operation = member.operation.get();
    if (operation->placeholder) continue;
    const auto failed = unfinished.find(operation);
    recorder_.member_ended(member, failed == unfinished.end());
    operation->complete(failed == unfinished.end() ? Status::ok() : failed->second,
                        member.absent_everywhere);
  }
}

void Completion::end(const std::shared_ptr<Operation>& operation, const Status& status) {
  if (operation->placeholder) return;
  recorder_.ended(*operation, status);
  mailbox_.release({operation.get()});
  if (status.code() == StatusCode::kPeerLost)
    tell_of_lost_peer();  // before the program hears of it
  operation->complete(status, false);
}

}  // namespace kolo
