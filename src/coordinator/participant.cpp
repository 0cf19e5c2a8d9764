#include "coordinator/participant.hpp"

#include <algorithm>
#include <utility>

namespace kolo {
namespace {

Status broken_protocol(const std::string& what) {
  return Status::internal("the coordinator " + what +
                          "; do all ranks run the same version of kolo?");
}

}  // namespace

void Participant::submit(const Submission& submission) {
  std::unique_ptr<Tensor>& entry = tensors_[submission.name];
  if (!entry) {
    entry = std::make_unique<Tensor>();
    entry->name = submission.name;
  }
  Tensor& tensor = *entry;
  tensor.token = submission.token;
  tensor.submitted = submission.descriptor;
  tensor.absent = submission.absent;
  tensor.transient = submission.transient;
  if (tensor.id == 0 || tensor.submitted != tensor.descriptor) {
    announce(tensor);
    if (tensor.in_bucket()) {
      ++tensor.bucket->reported;
      report_if_full(*tensor.bucket);
    }
  } else if (tensor.in_bucket()) {
    tensor.phase = Phase::kHeld;
    ++held_;
    ++tensor.bucket->held;
    report_if_full(*tensor.bucket);
  } else {
    report_alone(tensor);
  }
}

void Participant::wanted(const std::string& name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end() || found->second->phase != Phase::kHeld) return;
  give_up(*found->second->bucket);
}

void Participant::boundary() {
  if (rank_ == 0) report_.emplace_back(wire::Boundary{});
}

void Participant::flush() {
  std::vector<Group*> partly_full;
  for (const auto& [id, bucket] : buckets_) {
    if (bucket->held > 0) partly_full.push_back(bucket.get());
  }
  for (Group* bucket : partly_full) give_up(*bucket);
}

void Participant::leave() {
  flush();
  report_.emplace_back(wire::Leave{});
}

wire::Report Participant::take_report() {
  return std::exchange(report_, {});
}

void Participant::announce(Tensor& tensor) {
  tensor.phase = Phase::kReported;
  tensor.by_id = false;
  report_.emplace_back(
      wire::Announce{tensor.name, tensor.submitted, tensor.absent, tensor.transient});
}

void Participant::report_alone(Tensor& tensor) {
  if (tensor.phase == Phase::kHeld) --held_;
  tensor.phase = Phase::kReported;
  tensor.by_id = true;
  wire::Ready ready{tensor.id, {}};
  if (tensor.absent) ready.absent.push_back(0);
  report_.emplace_back(std::move(ready));
}

// One number for the whole bucket, unless some members were reported before it came to be.
void Participant::report_if_full(Group& bucket) {
  if (bucket.held == 0 || bucket.held + bucket.reported < bucket.members.size()) return;
  if (bucket.reported == 0) {
    wire::Ready ready{bucket.id, {}};
    for (std::size_t i = 0; i < bucket.members.size(); ++i) {
      Tensor& member = *bucket.members[i];
      if (member.absent) ready.absent.push_back(static_cast<std::uint32_t>(i));
      member.phase = Phase::kReported;
      member.by_id = true;
      --held_;
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

void Participant::give_up(Group& bucket) {
  report_.emplace_back(wire::Flush{bucket.id});
  for (Tensor* member : bucket.members) {
    member->bucket = nullptr;
    if (member->phase == Phase::kHeld) report_alone(*member);
  }
  ended_here_.push_back(bucket.id);
  buckets_.erase(UnitId(bucket.id));
}

Status Participant::apply(const wire::Decisions& decisions, std::vector<Action>& actions) {
  for (const UnitId bucket : std::exchange(ended_here_, {})) {
    actions.emplace_back(BucketEnds{bucket});
  }
  for (const wire::DecisionRecord& record : decisions) {
    Status status = std::visit([&](const auto& body) { return on(body, actions); }, record);
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

Status Participant::on(const wire::Assign& record, std::vector<Action>& /*actions*/) {
  const auto found = tensors_.find(record.name);
  if (found == tensors_.end() || found->second->phase == Phase::kIdle) {
    return broken_protocol("gave a number to '" + record.name + "', which is not in flight here");
  }
  Tensor& tensor = *found->second;
  tensor.id = record.id;
  tensor.descriptor = tensor.submitted;
  tensor.executions = 0;
  by_id_[record.id] = &tensor;
  return Status::ok();
}

Status Participant::on(const wire::Bucket& record, std::vector<Action>& actions) {
  auto bucket = std::make_unique<Group>();
  bucket->id = record.id;
  BucketBegins action{record.id, {}};
  for (const wire::BucketMember& entry : record.members) {
    const auto found = by_id_.find(entry.tensor);
    if (found == by_id_.end()) return broken_protocol("put an unknown tensor into a bucket");
    Tensor& tensor = *found->second;
    tensor.bucket = bucket.get();
    tensor.bucket_base = entry.base;
    if (tensor.phase == Phase::kReported && tensor.in_bucket()) ++bucket->reported;
    bucket->members.push_back(&tensor);
    action.members.push_back({tensor.name, tensor.descriptor});
  }
  buckets_[record.id] = std::move(bucket);
  actions.emplace_back(std::move(action));
  return Status::ok();
}

// The submission is over as far as this class is concerned.
void Participant::begin_execution(Tensor& tensor) {
  tensor.phase = Phase::kIdle;
  ++tensor.executions;
}

Status Participant::on(const wire::Execute& record, std::vector<Action>& actions) {
  std::vector<Tensor*> members;
  if (const auto bucket = buckets_.find(record.unit); bucket != buckets_.end()) {
    members = bucket->second->members;
    bucket->second->reported = 0;
  } else if (const auto tensor = by_id_.find(record.unit); tensor != by_id_.end()) {
    members.push_back(tensor->second);
  }
  if (members.empty()) return broken_protocol("executes something unknown");
  Launch launch{sequence_++, record.unit, {}};
  for (Tensor* member : members) {
    if (member->phase != Phase::kReported) {
      return broken_protocol("executes '" + member->name + "', which was not reported here");
    }
    launch.members.push_back({member->token, false});
    begin_execution(*member);
  }
  for (const std::uint32_t position : record.absent) {
    if (position >= launch.members.size()) return broken_protocol("names a member that is none");
    launch.members[position].absent_everywhere = true;
  }
  actions.emplace_back(std::move(launch));
  if (members.front()->transient) {
    by_id_.erase(members.front()->id);
    tensors_.erase(std::string(members.front()->name));
  }
  return Status::ok();
}

Status Participant::on(const wire::Fail& record, std::vector<Action>& actions) {
  const auto found = tensors_.find(record.name);
  if (found == tensors_.end() || found->second->phase == Phase::kIdle) return Status::ok();
  Tensor& tensor = *found->second;
  const bool held = tensor.phase == Phase::kHeld;
  if (held) --held_;
  if (tensor.in_bucket()) --(held ? tensor.bucket->held : tensor.bucket->reported);
  tensor.phase = Phase::kIdle;
  actions.emplace_back(Failure{tensor.token, Status(record.code, record.message)});
  if (tensor.id == 0) tensors_.erase(found);
  return Status::ok();
}

Status Participant::on(const wire::Dissolve& record, std::vector<Action>& actions) {
  const auto found = buckets_.find(record.bucket);
  if (found == buckets_.end()) return Status::ok();  // this rank gave it up before
  const std::unique_ptr<Group> bucket = std::move(found->second);
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
  by_id_.erase(found);
  tensor.id = 0;
  if (tensor.phase == Phase::kIdle) {
    tensors_.erase(std::string(tensor.name));
  } else if (tensor.by_id) {
    announce(tensor);  // the coordinator does not know the number any more that it was told
  }
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
