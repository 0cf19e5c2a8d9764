// The buckets of the coordinator: how they come to be, are executed, and end.
#include <algorithm>
#include <utility>

#include "coordinator/negotiator.hpp"
#include "coordinator/plan.hpp"
#include "core/ranks.hpp"

namespace kolo {
namespace {

// A tensor whose buckets had to be dissolved so often stays alone.
constexpr int kMostPlans = 3;

}  // namespace

// Rank 0 begins to wait: the known tensors that it submitted since it last did may share buckets.
void Negotiator::plan(const std::vector<wire::Submitted>& together) {
  std::vector<Candidate> candidates;
  std::vector<const Descriptor*> descriptors;
  std::unordered_map<UnitId, std::size_t> positions_by_id;
  for (const wire::Submitted& submitted : together) {
    const auto found = by_id_.find(submitted.tensor);
    if (found == by_id_.end()) continue;
    Tensor* tensor = found->second;
    if (tensor->bucket != nullptr || tensor->times_planned == kMostPlans) continue;
    if (submitted.execution < tensor->plannable_from) continue;
    const auto [position, is_new] = positions_by_id.emplace(tensor->id, candidates.size());
    if (is_new) {
      candidates.push_back({tensor, submitted.execution});
      descriptors.push_back(&tensor->agreed);
    } else {  // it came twice: the bucket holds after the second time
      candidates[position->second].execution = submitted.execution;
    }
  }
  for (const std::vector<std::size_t>& positions : plan_buckets(descriptors, options_.limits)) {
    std::vector<Candidate> members;
    members.reserve(positions.size());
    for (const std::size_t position : positions) members.push_back(candidates[position]);
    make_bucket(members);
  }
}

// The bucket holds from the next submissions on.
void Negotiator::make_bucket(const std::vector<Candidate>& members) {
  auto bucket = std::make_unique<BucketState>();
  bucket->id = next_id_++;
  wire::Bucket decision{bucket->id, {}};
  for (const Candidate& candidate : members) {
    Tensor* member = candidate.tensor;
    bucket->members.push_back(member);
    member->bucket = bucket.get();
    member->bucket_base = candidate.execution + 1;
    ++member->times_planned;
    decision.members.push_back({member->id, member->bucket_base});
  }
  decisions_.emplace_back(std::move(decision));
  BucketState& made = *(buckets_[bucket->id] = std::move(bucket));
  for (const int rank : ranks_where(joined_, true)) {
    if (half_come(made, rank)) return dissolve(made, nullptr);
  }
}

// The usual case, so that it should cost next to nothing.
Status Negotiator::arrive_whole(int rank, BucketState& bucket) {
  bucket.whole.resize(options_.ranks.size(), false);
  if (bucket.whole[rank]) {
    return Status::internal("rank " + std::to_string(rank) + " reported a bucket twice");
  }
  bucket.whole[rank] = true;
  if (bucket.wholes == 0) bucket.since = now_;
  if (keeps_arrivals_) arrivals_.push_back({rank, bucket.id, {}, OpKind::kAllreduce, false});
  if (++bucket.wholes == size()) execute(bucket);
  return Status::ok();
}

// Whoever has reported the whole bucket has reported each of its members. This ends none of them,
// since there is a rank that takes part and has not reported it.
void Negotiator::count_one_by_one(BucketState& bucket) {
  if (std::exchange(bucket.one_by_one, true)) return;
  const std::vector<Tensor*> members = bucket.members;
  const std::vector<bool> whole = std::exchange(bucket.whole, {});
  bucket.wholes = 0;
  // As if they had come one by one then.
  const Clock::time_point now = std::exchange(now_, bucket.since);
  const bool keeps_arrivals = std::exchange(keeps_arrivals_, false);
  for (const int rank : ranks_where(whole, true)) {
    for (Tensor* member : members) arrive(rank, *member, false);
  }
  now_ = now;
  keeps_arrivals_ = keeps_arrivals;
}

void Negotiator::count_one_by_one() {
  std::vector<BucketState*> buckets;
  for (const auto& [id, bucket] : buckets_) buckets.push_back(bucket.get());
  std::sort(buckets.begin(), buckets.end(), [](auto* a, auto* b) { return a->id < b->id; });
  for (BucketState* bucket : buckets) count_one_by_one(*bucket);
}

void Negotiator::execute(BucketState& bucket) {
  wire::Execute decision{bucket.id, {}};
  for (std::size_t i = 0; i < bucket.members.size(); ++i) {
    Tensor& member = *bucket.members[i];
    ++member.executions;
    if (!bucket.one_by_one) continue;
    if (absent_everywhere(member)) decision.absent.push_back(static_cast<std::uint32_t>(i));
    clear_arrivals(member);
  }
  bucket.one_by_one = false;
  bucket.whole.clear();
  bucket.wholes = 0;
  bucket.complete = 0;
  ++bucket.executions;
  decisions_.emplace_back(std::move(decision));
}

// Resolves the members that have arrived from everywhere; the caller looks after `except`. A member
// may have become complete just now, because a rank has joined: then nobody has compared yet what
// the ranks announced for it.
void Negotiator::dissolve(BucketState& bucket, const Tensor* except) {
  decisions_.emplace_back(wire::Dissolve{bucket.id});
  Dissolved& dissolved = dissolved_[bucket.id];
  dissolved.flushed = left_;
  count_one_by_one(bucket);
  const std::vector<Tensor*> members = bucket.members;
  for (Tensor* member : members) {
    dissolved.members.push_back(member->id);
    member->plannable_from = member->bucket_base + bucket.executions + 1;
    member->bucket = nullptr;
  }
  buckets_.erase(bucket.id);
  for (Tensor* member : members) {
    if (member != except && member->arrivals > 0 && is_complete(*member)) resolve(*member);
  }
}

void Negotiator::note_flushed(UnitId bucket, int rank) {
  const auto found = dissolved_.find(bucket);
  if (found == dissolved_.end()) return;
  std::vector<bool>& flushed = found->second.flushed;
  flushed[static_cast<std::size_t>(rank)] = true;
  if (std::find(flushed.begin(), flushed.end(), false) == flushed.end()) dissolved_.erase(found);
}

// Before the rank counts as joined, so that what is complete then is looked at like all else.
void Negotiator::give_up_half_come(int rank) {
  std::vector<BucketState*> given_up;
  for (const auto& [id, bucket] : buckets_) {
    if (half_come(*bucket, rank)) given_up.push_back(bucket.get());
  }
  std::sort(given_up.begin(), given_up.end(), [](auto* a, auto* b) { return a->id < b->id; });
  for (BucketState* bucket : given_up) dissolve(*bucket, nullptr);
}

// Whether a rank has submitted some members for the bucket's next time, and others not. If it joins
// like this the bucket is given up, as if it had waited.
bool Negotiator::half_come(const BucketState& bucket, int rank) const {
  const auto came = std::count_if(
      bucket.members.begin(), bucket.members.end(),
      [&](const Tensor* member) { return member->in_bucket() && member->arrived[rank]; });
  return came > 0 && static_cast<std::size_t>(came) < bucket.members.size();
}

}  // namespace kolo
