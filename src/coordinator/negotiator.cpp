#include "coordinator/negotiator.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "core/ranks.hpp"

namespace kolo {
namespace {

// An execution that never comes.
constexpr std::uint64_t kNotYet = std::numeric_limits<std::uint64_t>::max();

// A tensor that was planned into this many buckets is not planned again.
constexpr int kMostPlans = 3;

}  // namespace

Negotiator::Negotiator(const Options& options)
    : limits_(options.limits),
      attendance_(options.ranks),
      owed_(options.ranks.size(), 0),
      held_back_(options.ranks.size()) {}

wire::Decisions Negotiator::take_decisions() {
  return std::exchange(decisions_, {});
}

std::vector<Stall> Negotiator::stalls(Clock::time_point before) const {
  std::vector<Stall> found;
  for (const ByName& tensors : tensors_) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor->arrivals == 0 || tensor->since > before) continue;
      // Skips the timeline's own operations: a rank with a hanging disk misses only those.
      if (traits_of(tensor->meant().kind).is_internal) continue;
      std::vector<int> missing = tensor->missing_ranks(attendance_);
      // The tensor waits for the rest of its bucket.
      if (missing.empty()) continue;
      found.push_back(
          {name, tensor->meant().kind, 0, tensor->since, attendance_.in_world(std::move(missing))});
    }
  }
  for (const auto& [id, bucket] : buckets_) {
    if (bucket->one_by_one || bucket->wholes == 0 || bucket->since > before) continue;
    const Tensor& first = *bucket->members.front();
    found.push_back({first.name, first.agreed.kind, bucket->members.size() - 1, bucket->since,
                     attendance_.in_world(ranks_where(bucket->whole, false))});
  }
  std::sort(found.begin(), found.end(), [](const Stall& a, const Stall& b) {
    return std::tie(a.since, a.name, a.kind) < std::tie(b.since, b.name, b.kind);
  });
  return found;
}

void Negotiator::fail_different_kinds(Clock::time_point before) {
  if (counts_from_ > before) return;
  count_one_by_one_where_kinds_differ(before);
  std::map<std::string, std::vector<Tensor*>> by_name;
  for (NameSpace kind = 0; kind < kUnnamed; ++kind) {
    for (const auto& [name, tensor] : tensors_[kind]) {
      if (tensor->arrivals > 0 && tensor->since <= before) by_name[name].push_back(tensor.get());
    }
  }
  for (const auto& [name, tensors] : by_name) {
    const std::string difference = different_kinds(tensors);
    if (difference.empty()) continue;
    const std::string message = disagree(*tensors.front(), difference);
    for (Tensor* tensor : tensors) fail(*tensor, StatusCode::kMismatch, message);
  }
}

// A bucket that ranks have reported whole has no arrivals of its members.
void Negotiator::count_one_by_one_where_kinds_differ(Clock::time_point before) {
  std::set<std::string> others;
  for (NameSpace kind = 0; kind < kUnnamed; ++kind) {
    if (kind == static_cast<NameSpace>(OpKind::kAllreduce)) continue;
    for (const auto& [name, tensor] : tensors_[kind]) {
      if (tensor->arrivals > 0 && tensor->since <= before) others.insert(name);
    }
  }
  if (others.empty()) return;
  std::map<EntryId, Bucket*> buckets;
  for (const auto& [id, bucket] : buckets_) {
    const auto& members = bucket->members;
    if (std::any_of(members.begin(), members.end(),
                    [&](const Tensor* member) { return others.count(member->name) > 0; }))
      buckets.emplace(id, bucket.get());
  }
  for (const auto& [id, bucket] : buckets) count_one_by_one(*bucket);
}

// Describes what differs if every rank that has not joined has submitted exactly one of these.
// Otherwise returns an empty string.
std::string Negotiator::different_kinds(const std::vector<Tensor*>& of_one_name) const {
  if (of_one_name.size() < 2) return {};
  std::vector<const Descriptor*> meanings;
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    const Descriptor* own = nullptr;
    for (const Tensor* tensor : of_one_name) {
      if (!tensor->arrived[rank]) continue;
      if (own != nullptr) return {};
      own = &tensor->meant_by(rank);
    }
    if (own == nullptr && attendance_.has_joined(rank)) continue;
    if (own == nullptr) return {};
    meanings.push_back(own);
    ranks.push_back(attendance_.in_world(rank));
  }
  return describe_difference(meanings, ranks);
}

std::string Negotiator::disagree(const Tensor& tensor, const std::string& difference) {
  const bool is_unnamed = tensor.name_space == kUnnamed;
  return "the ranks disagree about tensor '" + tensor.name + "': " + difference + ". " +
         (is_unnamed ? "Calls without a name are matched by their order: make the same ones in the "
                       "same order on every rank, or give them names"
                     : "Submit the same operation on every rank, or use different names") +
         "; other tensors are not affected";
}

std::string Negotiator::remaining_ranks() const {
  return attendance_.in_words(ranks_where(attendance_.left(), false));
}

Status Negotiator::handle(int rank, const wire::Report& report, Clock::time_point now) {
  now_ = now;
  for (const wire::ReportRecord& record : report) {
    Status status = std::visit([&](const auto& body) { return on(rank, body); }, record);
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

Status Negotiator::on(int rank, const wire::Announce& record) {
  Tensor& tensor = find_or_create(name_space_of(record.descriptor, record.transient), record.name);
  if (tensor.bucket != nullptr) count_one_by_one(*tensor.bucket);
  if (tensor.arrived[rank]) {
    return Status::internal(attendance_.in_words({rank}) + " announced '" + record.name +
                            "' twice");
  }
  if (record.again && owed_[rank] == 0) {
    return Status::internal(attendance_.in_words({rank}) + " announced '" + record.name +
                            "' again, but had not reported it");
  }
  tensor.transient = record.transient;
  tensor.announced[rank] = record.descriptor;
  arrive(rank, tensor, record.absent);
  if (record.again && --owed_[rank] == 0)
    return handle(rank, std::exchange(held_back_[rank], {}), now_);
  return Status::ok();
}

Status Negotiator::on(int rank, const wire::Ready& record) {
  std::vector<EntryId> tensors = {record.entry};
  if (const auto bucket = buckets_.find(record.entry); bucket != buckets_.end()) {
    if (!bucket->second->one_by_one && record.absent.empty() && attendance_.all_take_part())
      return arrive_whole(rank, *bucket->second);
    tensors.clear();
    for (const Tensor* member : bucket->second->members) tensors.push_back(member->id);
  } else if (const auto old = dissolved_.find(record.entry); old != dissolved_.end()) {
    tensors = old->second.members;
  }
  for (std::size_t position = 0; position < tensors.size(); ++position) {
    const auto found = by_id_.find(tensors[position]);
    if (found == by_id_.end()) {
      // Evicted while the report was under way: the rank announces the tensor again when it hears.
      if (tensors[position] < next_id_) {
        ++owed_[rank];
        continue;
      }
      return Status::internal(attendance_.in_words({rank}) + " reported an unknown tensor");
    }
    Tensor& tensor = *found->second;
    if (tensor.bucket != nullptr) count_one_by_one(*tensor.bucket);
    if (tensor.arrived[rank]) {
      return Status::internal(attendance_.in_words({rank}) + " reported '" + tensor.name +
                              "' twice");
    }
    const bool absent =
        std::find(record.absent.begin(), record.absent.end(), position) != record.absent.end();
    arrive(rank, tensor, absent);
  }
  return Status::ok();
}

Status Negotiator::on(int rank, const wire::Flush& record) {
  const auto found = buckets_.find(record.bucket);
  if (found != buckets_.end()) dissolve(*found->second, nullptr);
  note_flushed(record.bucket, rank);
  return Status::ok();
}

Status Negotiator::on(int rank, const wire::Boundary& record) {
  if (rank != 0) return Status::internal(attendance_.in_words({rank}) + " sent a boundary");
  plan(record.together);
  for (const EntryId id : record.evict) {
    if (const auto found = by_id_.find(id); found != by_id_.end()) evict(*found->second);
  }
  return Status::ok();
}

Status Negotiator::on(int rank, const wire::Leave& record) {
  if (owed_[rank] > 0) {
    held_back_[rank].emplace_back(record);
    return Status::ok();
  }
  count_one_by_one();
  attendance_.leave(rank);
  std::vector<EntryId> dissolved;
  for (const auto& [bucket, state] : dissolved_) dissolved.push_back(bucket);
  for (const EntryId bucket : dissolved) note_flushed(bucket, rank);
  for (Tensor* tensor : in_flight_without(rank)) {
    if (tensor->arrivals > 0 && tensor->needs(rank, attendance_)) fail_for_left_ranks(*tensor);
  }
  if (attendance_.any_joined()) fail_join();
  finished_ = ranks_where(attendance_.left(), false).empty();
  if (finished_) decisions_.emplace_back(wire::Bye{});
  return Status::ok();
}

Status Negotiator::on(int /*rank*/, const wire::Abort& record) {
  return Status::peer_lost(record.message);
}

Status Negotiator::on(int rank, const wire::Measures& record) {
  measures_.emplace_back(rank, record.numbers);
  return Status::ok();
}

// From now on the rank counts as arrived, without values, wherever it is missing.
Status Negotiator::on(int rank, const wire::Join& record) {
  if (owed_[rank] > 0) {
    held_back_[rank].emplace_back(record);
    return Status::ok();
  }
  if (attendance_.has_joined(rank))
    return Status::internal(attendance_.in_words({rank}) + " joined twice");
  if (!attendance_.left_in_order().empty()) {
    fail_join();
    return Status::ok();
  }
  count_one_by_one();
  give_up_half_come(rank);
  attendance_.join(rank);
  for (Tensor* tensor : in_flight_without(rank)) {
    if (tensor->arrivals > 0 && tensor->needs(rank, attendance_) &&
        tensor->is_complete(attendance_))
      resolve(*tensor);
  }
  if (attendance_.all_joined()) end_join(rank, {});
  return Status::ok();
}

void Negotiator::end_join(int last_rank, const std::string& error) {
  decisions_.emplace_back(wire::Joined{last_rank, error});
  attendance_.end_join();
}

// Ends the join with an error: the ranks that have joined would wait for ever for one that has
// left.
void Negotiator::fail_join() {
  end_join(0,
           "join: " + attendance_.in_words({attendance_.left_in_order().front()}) +
               " shut kolo down or exited and will not join; every rank must call join(), also one "
               "without any data");
}

// Sorted by name, because the map's order differs between runs. Resolving one tensor may end
// another one of the same bucket.
std::vector<Negotiator::Tensor*> Negotiator::in_flight_without(int rank) const {
  std::vector<Tensor*> waiting;
  for (const ByName& tensors : tensors_) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor->arrivals > 0 && !tensor->arrived[rank]) waiting.push_back(tensor.get());
    }
  }
  std::sort(waiting.begin(), waiting.end(), [](auto* a, auto* b) {
    return std::tie(a->name, a->name_space) < std::tie(b->name, b->name_space);
  });
  return waiting;
}

Negotiator::Tensor& Negotiator::find_or_create(NameSpace name_space, const std::string& name) {
  std::unique_ptr<Tensor>& tensor = tensors_[name_space][name];
  if (!tensor) tensor = std::make_unique<Tensor>(name_space, name, size());
  return *tensor;
}

void Negotiator::arrive(int rank, Tensor& tensor, bool absent) {
  tensor.arrive(rank, absent, now_);
  if (keeps_arrivals_)
    arrivals_.push_back({rank, 0, tensor.name, tensor.meant().kind, tensor.transient});
  if (tensor.is_hopeless(attendance_)) {
    fail_for_left_ranks(tensor);
  } else if (tensor.is_complete(attendance_) || tensor.pairs_differ(attendance_)) {
    resolve(tensor);
  }
}

void Negotiator::resolve(Tensor& tensor) {
  if (const std::string reasons = tensor.refusals(attendance_); !reasons.empty()) {
    return fail(tensor, StatusCode::kMismatch,
                "tensor '" + tensor.name + "': " + reasons + ". Other tensors are not affected");
  }
  const std::string difference = tensor.disagreement(attendance_);
  if (!difference.empty()) {
    return fail(tensor, StatusCode::kMismatch, disagree(tensor, difference));
  }
  const std::string missing = tensor.missing_for_good(attendance_);
  if (!missing.empty()) return fail(tensor, StatusCode::kMismatch, missing);
  if (!tensor.announced.empty()) {
    const Descriptor descriptor = tensor.announced.begin()->second;
    if (tensor.id == 0 || descriptor != tensor.agreed) agree(tensor, descriptor);
  }
  tensor.announced.clear();
  if (!tensor.in_bucket()) {
    execute(tensor);
  } else if (Bucket* bucket = tensor.bucket; ++bucket->complete == bucket->members.size()) {
    execute(*bucket);
  }
}

// Gives the tensor a new number, under which ranks know it from now on.
void Negotiator::agree(Tensor& tensor, const Descriptor& descriptor) {
  if (tensor.bucket != nullptr) dissolve(*tensor.bucket, &tensor);
  if (tensor.id != 0) {
    decisions_.emplace_back(wire::Evict{tensor.id});
    by_id_.erase(tensor.id);
  }
  tensor.id = next_id_++;
  tensor.agreed = descriptor;
  // Rank 0 chooses the names to forget, and it does not know the sends of others.
  tensor.transient = tensor.transient || descriptor.is_between_two();
  tensor.executions = 0;
  tensor.plannable_from = 0;
  by_id_[tensor.id] = &tensor;
  decisions_.emplace_back(wire::Assign{tensor.id, tensor.name, tensor.agreed, tensor.transient});
}

void Negotiator::execute(Tensor& tensor) {
  wire::Execute decision{tensor.id, {}};
  if (tensor.is_absent_everywhere()) decision.absent.push_back(0);
  decisions_.emplace_back(std::move(decision));
  if (tensor.plannable_from == kNotYet && tensor.executions >= tensor.renewed_from)
    tensor.plannable_from = tensor.executions + 1;
  ++tensor.executions;
  tensor.clear_arrivals();
  if (tensor.transient) forget(tensor);
}

void Negotiator::fail(Tensor& tensor, StatusCode code, const std::string& message) {
  wire::Fail decision{tensor.name_space, tensor.name, code, message, {}};
  for (const int rank : ranks_where(tensor.arrived, false))
    decision.without.push_back(static_cast<std::uint32_t>(rank));
  decisions_.emplace_back(std::move(decision));
  tensor.clear_arrivals();
  if (tensor.in_bucket()) dissolve(*tensor.bucket, nullptr);
  ++tensor.executions;
  if (tensor.id == 0) forget(tensor);
}

void Negotiator::fail_for_left_ranks(Tensor& tensor) {
  std::vector<int> missing;
  for (const int rank : attendance_.left_in_order()) {
    if (!tensor.arrived[rank] && tensor.needs(rank, attendance_)) missing.push_back(rank);
  }
  const int first = missing.front();
  missing.erase(missing.begin());
  fail(tensor, StatusCode::kPeerLost,
       attendance_.in_words({first}) + " shut kolo down or exited before submitting tensor '" +
           tensor.name + "'" +
           (missing.empty() ? "" : " (so did " + attendance_.in_words(missing) + " since)") +
           ", which " + attendance_.in_words(ranks_where(tensor.arrived, true)) +
           " submitted; every rank must take part in every operation: look for an earlier exit, "
           "exception or different number of steps on " +
           attendance_.in_words({first}));
}

// Forgets a tensor that rank 0's program has not used for long. If other ranks have submitted it
// already, it keeps its number, but its plans are reset likewise, so that their speed does not
// matter.
void Negotiator::evict(Tensor& tensor) {
  if (tensor.bucket != nullptr) dissolve(*tensor.bucket, nullptr);
  if (tensor.arrivals == 0) return forget(tensor);
  tensor.times_planned = 0;
  tensor.plannable_from = kNotYet;
  tensor.renewed_from = tensor.executions + (tensor.arrived[0] ? 1 : 0);
}

void Negotiator::forget(Tensor& tensor) {
  if (tensor.id != 0) {
    by_id_.erase(tensor.id);
    if (!tensor.transient) decisions_.emplace_back(wire::Evict{tensor.id});
  }
  tensors_[tensor.name_space].erase(std::string(tensor.name));
}

// --- buckets ---

// Plans buckets of the known tensors that rank 0 has submitted between two waits.
void Negotiator::plan(const std::vector<wire::Submitted>& together) {
  std::vector<Candidate> candidates;
  std::vector<const Descriptor*> descriptors;
  std::unordered_map<EntryId, std::size_t> positions_by_id;
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
  for (const std::vector<std::size_t>& positions : plan_buckets(descriptors, limits_)) {
    std::vector<Candidate> members;
    members.reserve(positions.size());
    for (const std::size_t position : positions) members.push_back(candidates[position]);
    make_bucket(members);
  }
}

// The bucket takes effect with the next submissions of its members.
void Negotiator::make_bucket(const std::vector<Candidate>& members) {
  auto bucket = std::make_unique<Bucket>();
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
  Bucket& made = *(buckets_[bucket->id] = std::move(bucket));
  for (const int rank : ranks_where(attendance_.joined(), true)) {
    if (half_come(made, rank)) return dissolve(made, nullptr);
  }
}

// This is the usual case, so it must be cheap.
Status Negotiator::arrive_whole(int rank, Bucket& bucket) {
  bucket.whole.resize(static_cast<std::size_t>(size()), false);
  if (bucket.whole[rank]) {
    return Status::internal(attendance_.in_words({rank}) + " reported a bucket twice");
  }
  bucket.whole[rank] = true;
  if (bucket.wholes == 0) bucket.since = now_;
  if (keeps_arrivals_) arrivals_.push_back({rank, bucket.id, {}, OpKind::kAllreduce, false});
  if (++bucket.wholes == size()) execute(bucket);
  return Status::ok();
}

// A rank that has reported the whole bucket has reported each of its members. No member is executed
// by this, because at least one rank that takes part has not reported the bucket.
void Negotiator::count_one_by_one(Bucket& bucket) {
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
  std::vector<Bucket*> buckets;
  for (const auto& [id, bucket] : buckets_) buckets.push_back(bucket.get());
  std::sort(buckets.begin(), buckets.end(), [](auto* a, auto* b) { return a->id < b->id; });
  for (Bucket* bucket : buckets) count_one_by_one(*bucket);
}

void Negotiator::execute(Bucket& bucket) {
  wire::Execute decision{bucket.id, {}};
  for (std::size_t i = 0; i < bucket.members.size(); ++i) {
    Tensor& member = *bucket.members[i];
    ++member.executions;
    if (!bucket.one_by_one) continue;
    if (member.is_absent_everywhere()) decision.absent.push_back(static_cast<std::uint32_t>(i));
    member.clear_arrivals();
  }
  bucket.one_by_one = false;
  bucket.whole.clear();
  bucket.wholes = 0;
  bucket.complete = 0;
  ++bucket.executions;
  decisions_.emplace_back(std::move(decision));
}

// Resolves the members that have arrived from everywhere; the caller handles `except`. A member may
// just have become complete because a rank has joined. Then the ranks' descriptors were not
// compared yet.
void Negotiator::dissolve(Bucket& bucket, const Tensor* except) {
  decisions_.emplace_back(wire::Dissolve{bucket.id});
  Dissolved& dissolved = dissolved_[bucket.id];
  dissolved.flushed = attendance_.left();
  count_one_by_one(bucket);
  const std::vector<Tensor*> members = bucket.members;
  for (Tensor* member : members) {
    dissolved.members.push_back(member->id);
    member->plannable_from = member->bucket_base + bucket.executions + 1;
    member->bucket = nullptr;
  }
  buckets_.erase(bucket.id);
  for (Tensor* member : members) {
    if (member != except && member->arrivals > 0 && member->is_complete(attendance_))
      resolve(*member);
  }
}

void Negotiator::note_flushed(EntryId bucket, int rank) {
  const auto found = dissolved_.find(bucket);
  if (found == dissolved_.end()) return;
  std::vector<bool>& flushed = found->second.flushed;
  flushed[static_cast<std::size_t>(rank)] = true;
  if (std::find(flushed.begin(), flushed.end(), false) == flushed.end()) dissolved_.erase(found);
}

// Called before the rank counts as joined, so that members that become complete are resolved like
// all others.
void Negotiator::give_up_half_come(int rank) {
  std::vector<Bucket*> given_up;
  for (const auto& [id, bucket] : buckets_) {
    if (half_come(*bucket, rank)) given_up.push_back(bucket.get());
  }
  std::sort(given_up.begin(), given_up.end(), [](auto* a, auto* b) { return a->id < b->id; });
  for (Bucket* bucket : given_up) dissolve(*bucket, nullptr);
}

// Whether a rank has submitted some members for the bucket's next execution, and others not. If it
// joins in this state, the bucket is given up, as if the rank had waited.
bool Negotiator::half_come(const Bucket& bucket, int rank) const {
  const auto came = std::count_if(
      bucket.members.begin(), bucket.members.end(),
      [&](const Tensor* member) { return member->in_bucket() && member->arrived[rank]; });
  return came > 0 && static_cast<std::size_t>(came) < bucket.members.size();
}

}  // namespace kolo
