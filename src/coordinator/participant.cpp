#include "coordinator/participant.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace kolo {
namespace {

Status broken_protocol(const std::string& what) {
  return Status::internal("the coordinator " + what +
                          "; do all ranks run the same version of kolo?");
}

}  // namespace

// Most tensors are in a bucket, and need no lookup by name.
Participant::Tensor& Participant::tensor_of(const Submission& submission) {
  const auto bucket = buckets_.find(submission.place.bucket);
  if (bucket != buckets_.end()) return *bucket->second->members[submission.place.index];
  return find_or_create(name_space_of(submission.descriptor, submission.transient),
                        submission.name);
}

// Returns null if no tensor has the name.
Participant::Tensor* Participant::find(NameSpace name_space, const std::string& name) const {
  const ByName& tensors = tensors_[name_space];
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : found->second.get();
}

Participant::Tensor& Participant::find_or_create(NameSpace name_space, const std::string& name) {
  std::unique_ptr<Tensor>& tensor = tensors_[name_space][name];
  if (!tensor) {
    tensor = std::make_unique<Tensor>();
    tensor->name_space = name_space;
    tensor->name = name;
  }
  return *tensor;
}

bool Participant::submit(const Submission& submission) {
  Tensor& tensor = tensor_of(submission);
  ++submissions_;
  if (!submission.transient && !submission.descriptor.is_between_two()) used(tensor);
  tensor.token = submission.token;
  tensor.submitted = &submission.descriptor;
  tensor.absent = submission.absent;
  tensor.transient = submission.transient && tensor.id == 0;
  tensor.at = submission.at;
  tensor.wanted = false;
  const bool known = tensor.id != 0 && *tensor.submitted == tensor.descriptor;
  // A tensor of a bucket stays there, or is given up for this execution.
  if (known && rank_ == 0 && submission.plannable && !tensor.in_bucket())
    together_.push_back({tensor.id, tensor.executions});
  if (!known) {
    announce(tensor);
    if (tensor.in_bucket()) {
      ++tensor.bucket->reported;
      report_if_full(*tensor.bucket);
    }
  } else if (tensor.in_bucket()) {
    tensor.phase = Phase::kHeld;
    ++tensor.bucket->held;
    report_if_full(*tensor.bucket);
  } else {
    report_alone(tensor);
  }
  return known;
}

void Participant::wanted(NameSpace name_space, const std::string& name) {
  Tensor* tensor = find(name_space, name);
  if (tensor == nullptr || !tensor->in_flight()) return;
  tensor->wanted = true;
  if (tensor->in_bucket() && !tensor->bucket->full()) give_up(*tensor->bucket);
}

void Participant::boundary() {
  if (rank_ != 0) return;
  report_.emplace_back(wire::Boundary{std::exchange(together_, {}), choose_evictions()});
}

// The name may come again.
void Participant::used(Tensor& tensor) {
  tensor.last_used = submissions_;
  if (rank_ == 0 && !std::exchange(tensor.cached, true)) ++cached_;
}

void Participant::uncache(Tensor& tensor) {
  if (std::exchange(tensor.cached, false)) --cached_;
}

void Participant::forget(Tensor& tensor) {
  uncache(tensor);
  tensors_[tensor.name_space].erase(std::string(tensor.name));
}

// Returns the sixteenth of the cache that the program has not used for longest, so that the search
// pays. Tensors that others used while this rank had joined count as old as this rank's last
// submission, because the times of use in between must not matter.
std::vector<EntryId> Participant::choose_evictions() {
  if (cached_ <= cache_capacity_) return {};
  std::vector<Tensor*> candidates;
  for (const ByName& tensors : tensors_) {
    for (const auto& [name, tensor] : tensors) {
      const bool has_no_id_yet = tensor->id == 0 && tensor->in_flight();
      if (tensor->cached && !has_no_id_yet) candidates.push_back(tensor.get());
    }
  }
  const std::size_t wanted =
      std::min(candidates.size(), cached_ - cache_capacity_ + cache_capacity_ / 16);
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(wanted);
  std::partial_sort(candidates.begin(), end, candidates.end(), [](auto* a, auto* b) {
    return std::tie(a->last_used, a->name, a->name_space) <
           std::tie(b->last_used, b->name, b->name_space);
  });
  std::vector<EntryId> ids;
  for (auto tensor = candidates.begin(); tensor != end; ++tensor) {
    uncache(**tensor);
    if ((*tensor)->id == 0) {  // its last use failed
      forget(**tensor);
    } else {
      ids.push_back((*tensor)->id);
    }
  }
  return ids;
}

std::size_t Participant::flush(Clock::time_point then) {
  std::vector<Bucket*> waiting;
  for (const auto& [id, bucket] : buckets_) {
    if (bucket->full()) continue;
    const bool old =
        std::any_of(bucket->members.begin(), bucket->members.end(), [&](const Tensor* member) {
          return member->in_flight() && member->in_bucket() && member->at < then;
        });
    if (old) waiting.push_back(bucket.get());
  }
  for (Bucket* bucket : waiting) give_up(*bucket);
  return waiting.size();
}

void Participant::join(Token token) {
  flush(Clock::time_point::max());
  boundary();  // before the others go on without this rank
  join_ = token;
  report_.emplace_back(wire::Join{});
}

void Participant::leave() {
  flush(Clock::time_point::max());
  report_.emplace_back(wire::Leave{});
}

wire::Report Participant::take_report() {
  return std::exchange(report_, {});
}

void Participant::announce(Tensor& tensor, bool again) {
  tensor.phase = Phase::kReported;
  tensor.by_id = false;
  report_.emplace_back(
      wire::Announce{tensor.name, *tensor.submitted, tensor.absent, tensor.transient, again});
}

void Participant::report_alone(Tensor& tensor) {
  tensor.phase = Phase::kReported;
  tensor.by_id = true;
  wire::Ready ready{tensor.id, {}};
  if (tensor.absent) ready.absent.push_back(0);
  report_.emplace_back(std::move(ready));
}

// Reports one number for the whole bucket, unless some members were reported before the bucket
// existed.
void Participant::report_if_full(Bucket& bucket) {
  if (bucket.held == 0 || !bucket.full()) return;
  if (bucket.reported == 0) {
    wire::Ready ready{bucket.id, {}};
    for (std::size_t i = 0; i < bucket.members.size(); ++i) {
      Tensor& member = *bucket.members[i];
      if (member.absent) ready.absent.push_back(static_cast<std::uint32_t>(i));
      member.phase = Phase::kReported;
      member.by_id = true;
    }
    report_.emplace_back(std::move(ready));
  } else {
    for (Tensor* member : bucket.members) {
      if (member->phase == Phase::kHeld) report_alone(*member);
    }
  }
  bucket.held = 0;
  bucket.reported = bucket.members.size();
}

void Participant::give_up(Bucket& bucket) {
  report_.emplace_back(wire::Flush{bucket.id});
  for (Tensor* member : bucket.members) {
    member->bucket = nullptr;
    if (member->phase == Phase::kHeld) report_alone(*member);
  }
  ended_here_.push_back(bucket.id);
  buckets_.erase(EntryId(bucket.id));
}

Status Participant::apply(const wire::Decisions& decisions, std::vector<Action>& actions) {
  for (const EntryId bucket : std::exchange(ended_here_, {})) {
    actions.emplace_back(BucketEnds{bucket});
  }
  for (const wire::DecisionRecord& record : decisions) {
    Status status = std::visit([&](const auto& body) { return on(body, actions); }, record);
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

Status Participant::on(const wire::Assign& record, std::vector<Action>& /*actions*/) {
  Tensor& tensor = find_or_create(name_space_of(record.descriptor, record.transient), record.name);
  if (!tensor.in_flight() && join_ == 0 && !record.descriptor.is_between_two()) {
    return broken_protocol("gave a number to '" + record.name + "', which is not in flight here");
  }
  if (record.id == 0 || is_known(record.id) || tensor.id != 0) {
    return broken_protocol("gave '" + record.name + "' a second number, or one that is in use");
  }
  tensor.id = record.id;
  tensor.transient = record.transient;
  tensor.descriptor = record.descriptor;
  tensor.executions = 0;
  by_id_[record.id] = &tensor;
  return Status::ok();
}

Status Participant::on(const wire::Bucket& record, std::vector<Action>& actions) {
  if (record.id == 0 || is_known(record.id)) {
    return broken_protocol("gave a bucket a number that is in use");
  }
  std::unique_ptr<Bucket>& bucket = buckets_[record.id];
  bucket = std::make_unique<Bucket>();
  bucket->id = record.id;
  bool wanted = false;
  BucketBegins action{record.id, {}};
  for (const wire::BucketMember& entry : record.members) {
    const auto found = by_id_.find(entry.tensor);
    if (found == by_id_.end()) return broken_protocol("put an unknown tensor into a bucket");
    Tensor& tensor = *found->second;
    if (tensor.bucket != nullptr || tensor.transient) {
      return broken_protocol("put '" + tensor.name +
                             "' into a second bucket, or a transient tensor into one");
    }
    tensor.bucket = bucket.get();
    tensor.bucket_base = entry.base;
    bucket->members.push_back(&tensor);
    action.members.push_back({tensor.name, tensor.descriptor});
    if (!tensor.in_flight() || !tensor.in_bucket()) continue;
    ++bucket->reported;
    wanted = wanted || tensor.wanted;
  }
  actions.emplace_back(std::move(action));
  // As wanted() does if the bucket is known in time.
  if (wanted && !bucket->full()) give_up(*bucket);
  return Status::ok();
}

// The submission is over as far as this class is concerned.
void Participant::end_submission(Tensor& tensor) {
  tensor.phase = Phase::kIdle;
  ++tensor.executions;
}

Status Participant::on(const wire::Execute& record, std::vector<Action>& actions) {
  std::vector<Tensor*> members;
  if (const auto bucket = buckets_.find(record.entry); bucket != buckets_.end()) {
    members = bucket->second->members;
    bucket->second->reported = 0;
  } else if (const auto tensor = by_id_.find(record.entry); tensor != by_id_.end()) {
    members.push_back(tensor->second);
  }
  if (members.empty()) return broken_protocol("executes an unknown operation");
  Launch launch{sequence_++, record.entry, {}};
  launch.members.reserve(members.size());
  for (Tensor* member : members) {
    if (Status s = take_part(*member, launch); !s.is_ok()) return s;
  }
  for (const std::uint32_t position : record.absent) {
    if (position >= launch.members.size())
      return broken_protocol("names a member that does not exist");
    launch.members[position].absent_everywhere = true;
  }
  if (!launch.members.empty()) actions.emplace_back(std::move(launch));
  if (members.front()->transient) {
    by_id_.erase(members.front()->id);
    members.front()->id = 0;
    if (!members.front()->in_flight()) forget(*members.front());
  }
  return Status::ok();
}

Status Participant::take_part(Tensor& tensor, Launch& launch) {
  const bool reported = tensor.phase == Phase::kReported;
  if (tensor.descriptor.is_between_two() && (!reported || *tensor.submitted != tensor.descriptor)) {
    ++tensor.executions;  // other ranks' affair
    return Status::ok();
  }
  Member member;
  if (reported) {
    member.token = tensor.token;
  } else if (tensor.phase == Phase::kIdle && join_ != 0) {
    member.placeholder = std::make_unique<Placeholder>(Placeholder{tensor.name, tensor.descriptor});
    if (!tensor.transient) used(tensor);
  } else {
    return broken_protocol("executes '" + tensor.name + "', which was not reported here");
  }
  launch.members.push_back(std::move(member));
  end_submission(tensor);
  return Status::ok();
}

Status Participant::on(const wire::Fail& record, std::vector<Action>& actions) {
  Tensor* const found = find(record.name_space, record.name);
  if (found == nullptr) return Status::ok();
  Tensor& tensor = *found;
  if (tensor.in_flight() && std::count(record.without.begin(), record.without.end(), rank_) > 0)
    return stays_in_flight(tensor);
  if (tensor.in_flight()) {
    if (tensor.in_bucket())
      --(tensor.phase == Phase::kHeld ? tensor.bucket->held : tensor.bucket->reported);
    actions.emplace_back(Failure{tensor.token, Status(record.code, record.message)});
  }
  end_submission(tensor);
  // A name that counts in the cache goes on to count until it is evicted, since the program may
  // have come to a boundary before or after this message.
  if (tensor.id == 0 && !tensor.cached) forget(tensor);
  return Status::ok();
}

// The other ranks' submissions have failed before the coordinator received this one, which counts
// for the next execution.
Status Participant::stays_in_flight(Tensor& tensor) {
  const bool was_in_bucket = tensor.in_bucket();
  ++tensor.executions;
  if (!was_in_bucket && tensor.in_bucket()) {
    ++tensor.bucket->reported;
    if (tensor.wanted && !tensor.bucket->full()) give_up(*tensor.bucket);
  }
  return Status::ok();
}

Status Participant::on(const wire::Dissolve& record, std::vector<Action>& actions) {
  const auto found = buckets_.find(record.bucket);
  if (found == buckets_.end()) return Status::ok();  // this rank gave it up before
  report_.emplace_back(wire::Flush{record.bucket});
  const std::unique_ptr<Bucket> bucket = std::move(found->second);
  buckets_.erase(found);
  for (Tensor* member : bucket->members) {
    member->bucket = nullptr;
    if (member->phase == Phase::kHeld) report_alone(*member);
  }
  actions.emplace_back(BucketEnds{record.bucket});
  return Status::ok();
}

Status Participant::on(const wire::Evict& record, std::vector<Action>& /*actions*/) {
  const auto found = by_id_.find(record.tensor);
  if (found == by_id_.end()) return broken_protocol("evicts an unknown tensor");
  Tensor& tensor = *found->second;
  if (tensor.bucket != nullptr) return broken_protocol("evicts a member of a bucket");
  by_id_.erase(found);
  tensor.id = 0;
  if (!tensor.in_flight()) {
    forget(tensor);
  } else if (tensor.by_id) {
    announce(tensor, true);  // the coordinator does not know the reported number any more
  }
  return Status::ok();
}

Status Participant::on(const wire::Joined& record, std::vector<Action>& actions) {
  if (!record.error.empty()) {
    if (join_ != 0) {
      actions.emplace_back(Failure{std::exchange(join_, 0), Status::peer_lost(record.error)});
    }
    return Status::ok();
  }
  if (join_ == 0) return broken_protocol("says that all have joined, but this rank has not");
  actions.emplace_back(Joined{std::exchange(join_, 0), record.last_rank});
  return Status::ok();
}

Status Participant::on(const wire::Stalled& record, std::vector<Action>& actions) {
  actions.emplace_back(Stalled{record.text});
  return Status::ok();
}

Status Participant::on(const wire::Bye& /*record*/, std::vector<Action>& actions) {
  actions.emplace_back(Closed{});
  return Status::ok();
}

Status Participant::on(const wire::Abort& record, std::vector<Action>& /*actions*/) {
  return Status::peer_lost(record.message);
}

}  // namespace kolo
