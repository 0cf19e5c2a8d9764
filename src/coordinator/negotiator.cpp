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

}  // namespace

Negotiator::Negotiator(const Options& options)
    : options_(options),
      left_(options.ranks.size(), false),
      joined_(options.ranks.size(), false),
      owed_(options.ranks.size(), 0),
      held_back_(options.ranks.size()) {}

wire::Decisions Negotiator::take_decisions() {
  return std::exchange(decisions_, {});
}

// Ranks that have not submitted the tensor and still may.
std::vector<int> Negotiator::missing_ranks(const Tensor& tensor) const {
  std::vector<int> missing;
  for (int rank = 0; rank < size(); ++rank) {
    if (!tensor.arrived[rank] && !joined_[rank] && needs(tensor, rank)) missing.push_back(rank);
  }
  return missing;
}

std::vector<Stall> Negotiator::stalls(Clock::time_point before) const {
  std::vector<Stall> found;
  const auto in_world = [&](std::vector<int> ranks) {
    for (int& rank : ranks) rank = options_.ranks[static_cast<std::size_t>(rank)];
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  };
  for (const ByName& tensors : tensors_) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor->arrivals == 0 || tensor->since > before) continue;
      // The timeline's own: a rank whose disk hangs does not come, and nothing else waits for it.
      if (traits_of(meant(*tensor).kind).is_internal) continue;
      std::vector<int> missing = missing_ranks(*tensor);
      // The rest of its bucket is what is waited for.
      if (missing.empty()) continue;
      found.push_back({name, meant(*tensor).kind, 0, tensor->since, in_world(std::move(missing))});
    }
  }
  for (const auto& [id, bucket] : buckets_) {
    if (bucket->one_by_one || bucket->wholes == 0 || bucket->since > before) continue;
    const Tensor& first = *bucket->members.front();
    found.push_back({first.name, first.agreed.kind, bucket->members.size() - 1, bucket->since,
                     in_world(ranks_where(bucket->whole, false))});
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
  std::map<UnitId, BucketState*> buckets;
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
      const auto announced = tensor->announced.find(rank);
      own = announced == tensor->announced.end() ? &tensor->agreed : &announced->second;
    }
    if (own == nullptr && joined_[rank]) continue;
    if (own == nullptr) return {};
    meanings.push_back(own);
    ranks.push_back(options_.ranks[static_cast<std::size_t>(rank)]);
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
  return in_words(ranks_where(left_, false));
}

// "ranks 0, 3": the group's ranks as the world's.
std::string Negotiator::in_words(std::vector<int> ranks) const {
  for (int& rank : ranks) rank = options_.ranks[static_cast<std::size_t>(rank)];
  std::sort(ranks.begin(), ranks.end());
  return rank_list(ranks);
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
    return Status::internal("rank " + std::to_string(rank) + " announced '" + record.name +
                            "' twice");
  }
  if (record.again && owed_[rank] == 0) {
    return Status::internal("rank " + std::to_string(rank) + " announced '" + record.name +
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
  std::vector<UnitId> units = {record.unit};
  if (const auto bucket = buckets_.find(record.unit); bucket != buckets_.end()) {
    const bool all_take_part = left_order_.empty() && joined_count_ == 0;
    if (!bucket->second->one_by_one && record.absent.empty() && all_take_part)
      return arrive_whole(rank, *bucket->second);
    units.clear();
    for (const Tensor* member : bucket->second->members) units.push_back(member->id);
  } else if (const auto old = dissolved_.find(record.unit); old != dissolved_.end()) {
    units = old->second.members;
  }
  for (std::size_t position = 0; position < units.size(); ++position) {
    const auto found = by_id_.find(units[position]);
    if (found == by_id_.end()) {
      // Evicted while the report was under way: the rank announces the tensor again when it hears.
      if (units[position] < next_id_) {
        ++owed_[rank];
        continue;
      }
      return Status::internal("rank " + std::to_string(rank) + " reported an unknown tensor");
    }
    Tensor& tensor = *found->second;
    if (tensor.bucket != nullptr) count_one_by_one(*tensor.bucket);
    if (tensor.arrived[rank]) {
      return Status::internal("rank " + std::to_string(rank) + " reported '" + tensor.name +
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
  if (rank != 0) return Status::internal("rank " + std::to_string(rank) + " sent a boundary");
  plan(record.together);
  for (const UnitId id : record.evict) {
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
  left_[rank] = true;
  left_order_.push_back(rank);
  std::vector<UnitId> dissolved;
  for (const auto& [bucket, state] : dissolved_) dissolved.push_back(bucket);
  for (const UnitId bucket : dissolved) note_flushed(bucket, rank);
  for (Tensor* tensor : in_flight_without(rank)) {
    if (tensor->arrivals > 0 && needs(*tensor, rank)) fail_for_left_ranks(*tensor);
  }
  if (joined_count_ > 0) fail_join();
  finished_ = ranks_where(left_, false).empty();
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

// From now on the rank counts as arrived, with nothing, wherever it has not.
Status Negotiator::on(int rank, const wire::Join& record) {
  if (owed_[rank] > 0) {
    held_back_[rank].emplace_back(record);
    return Status::ok();
  }
  if (joined_[rank]) return Status::internal("rank " + std::to_string(rank) + " joined twice");
  if (!left_order_.empty()) {
    fail_join();
    return Status::ok();
  }
  count_one_by_one();
  give_up_half_come(rank);
  joined_[rank] = true;
  ++joined_count_;
  for (Tensor* tensor : in_flight_without(rank)) {
    if (tensor->arrivals > 0 && needs(*tensor, rank) && is_complete(*tensor)) resolve(*tensor);
  }
  if (joined_count_ == size()) end_join(rank, {});
  return Status::ok();
}

void Negotiator::end_join(int last_rank, const std::string& error) {
  decisions_.emplace_back(wire::Joined{last_rank, error});
  joined_.assign(static_cast<std::size_t>(size()), false);
  joined_count_ = 0;
}

// Who has joined would wait for a rank that has left for ever.
void Negotiator::fail_join() {
  end_join(0,
           "join: " + in_words({left_order_.front()}) +
               " shut kolo down or exited and will not join; every rank must call join(), also one "
               "without any data");
}

// Sorted by name: the map has no order that is the same in every run. What becomes of one may be
// the end of another, in the same bucket.
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

// Ranks that have joined and did not submit the tensor before.
std::vector<int> Negotiator::joined_without(const Tensor& tensor) const {
  std::vector<int> ranks;
  if (joined_count_ == 0) return ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (joined_[rank] && !tensor.arrived[rank]) ranks.push_back(rank);
  }
  return ranks;
}

// What the ranks that have come so far mean, as far as they agree.
const Descriptor& Negotiator::meant(const Tensor& tensor) const {
  return tensor.announced.empty() ? tensor.agreed : tensor.announced.begin()->second;
}

// Whether the operation takes place with this rank.
bool Negotiator::needs(const Tensor& tensor, int rank) const {
  const Descriptor& descriptor = meant(tensor);
  const int name = options_.ranks[static_cast<std::size_t>(rank)];
  return !descriptor.is_between_two() || descriptor.root == name || descriptor.destination == name;
}

bool Negotiator::is_complete(const Tensor& tensor) const {
  if (meant(tensor).is_between_two()) {
    for (int rank = 0; rank < size(); ++rank) {
      if (needs(tensor, rank) && !tensor.arrived[rank] && !joined_[rank]) return false;
    }
    return true;
  }
  return tensor.arrivals + static_cast<int>(joined_without(tensor).size()) == size();
}

// Two ranks that do not mean the same pair would wait for different others: they are told at once.
bool Negotiator::pairs_differ(const Tensor& tensor) const {
  return tensor.arrivals > 1 && meant(tensor).is_between_two() && !disagreement(tensor).empty();
}

bool Negotiator::absent_everywhere(const Tensor& tensor) const {
  return tensor.absent == tensor.arrivals;
}

Negotiator::Tensor& Negotiator::find_or_create(NameSpace name_space, const std::string& name) {
  std::unique_ptr<Tensor>& tensor = tensors_[name_space][name];
  if (!tensor) {
    tensor = std::make_unique<Tensor>();
    tensor->name_space = name_space;
    tensor->name = name;
    tensor->arrived.assign(size(), false);
  }
  return *tensor;
}

void Negotiator::arrive(int rank, Tensor& tensor, bool absent) {
  tensor.arrived[rank] = true;
  if (tensor.arrivals++ == 0) tensor.since = now_;
  if (keeps_arrivals_)
    arrivals_.push_back({rank, 0, tensor.name, meant(tensor).kind, tensor.transient});
  if (absent) ++tensor.absent;
  const bool hopeless = [&] {
    for (int other = 0; other < size(); ++other) {
      if (left_[other] && !tensor.arrived[other] && needs(tensor, other)) return true;
    }
    return false;
  }();
  if (hopeless) {
    fail_for_left_ranks(tensor);
  } else if (is_complete(tensor) || pairs_differ(tensor)) {
    resolve(tensor);
  }
}

void Negotiator::resolve(Tensor& tensor) {
  if (const std::string reasons = refusals(tensor); !reasons.empty()) {
    return fail(tensor, StatusCode::kMismatch,
                "tensor '" + tensor.name + "': " + reasons + ". Other tensors are not affected");
  }
  const std::string difference = disagreement(tensor);
  if (!difference.empty()) {
    return fail(tensor, StatusCode::kMismatch, disagree(tensor, difference));
  }
  const std::string missing = missing_for_good(tensor);
  if (!missing.empty()) return fail(tensor, StatusCode::kMismatch, missing);
  if (!tensor.announced.empty()) {
    const Descriptor descriptor = tensor.announced.begin()->second;
    if (tensor.id == 0 || descriptor != tensor.agreed) agree(tensor, descriptor);
  }
  tensor.announced.clear();
  if (!tensor.in_bucket()) {
    execute(tensor);
  } else if (BucketState* bucket = tensor.bucket; ++bucket->complete == bucket->members.size()) {
    execute(*bucket);
  }
}

// Who cannot take part, and why; empty if all can.
std::string Negotiator::refusals(const Tensor& tensor) const {
  std::string text;
  for (const auto& [rank, descriptor] : tensor.announced) {
    if (descriptor.refusal.empty()) continue;
    text += (text.empty() ? "" : "; ") + in_words({rank}) +
            " could not take part: " + descriptor.refusal;
  }
  return text;
}

// Of what all have agreed on: who must give something but has joined, in words.
std::string Negotiator::missing_for_good(const Tensor& tensor) const {
  const Descriptor& descriptor = meant(tensor);
  const std::vector<int> joined = joined_without(tensor);
  if (traits_of(descriptor.kind).needs_root &&
      std::any_of(joined.begin(), joined.end(), [&](int rank) {
        return options_.ranks[static_cast<std::size_t>(rank)] == descriptor.root;
      })) {
    return std::string(name_of(descriptor.kind)) + " of '" + tensor.name + "': its root, rank " +
           std::to_string(descriptor.root) +
           ", has joined and gives nothing; choose a root that still takes part";
  }
  if (descriptor.is_between_two() && tensor.arrivals < 2) {
    return "send '" + tensor.name + "' from rank " + std::to_string(descriptor.root) + " to rank " +
           std::to_string(descriptor.destination) +
           ": one of them has joined and takes part no more";
  }
  return {};
}

// What differs between ranks; a rank that came with the id meant the agreed descriptor.
std::string Negotiator::disagreement(const Tensor& tensor) const {
  if (tensor.announced.empty()) return {};
  std::vector<const Descriptor*> meanings;
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (!tensor.arrived[rank]) continue;
    const auto announced = tensor.announced.find(rank);
    meanings.push_back(announced == tensor.announced.end() ? &tensor.agreed : &announced->second);
    ranks.push_back(options_.ranks[static_cast<std::size_t>(rank)]);
  }
  return describe_difference(meanings, ranks);
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
  // Rank 0, which says what is to be forgotten, knows nothing of others' sends.
  tensor.transient = tensor.transient || descriptor.is_between_two();
  tensor.executions = 0;
  tensor.plannable_from = 0;
  by_id_[tensor.id] = &tensor;
  decisions_.emplace_back(wire::Assign{tensor.id, tensor.name, tensor.agreed, tensor.transient});
}

void Negotiator::execute(Tensor& tensor) {
  wire::Execute decision{tensor.id, {}};
  if (absent_everywhere(tensor)) decision.absent.push_back(0);
  decisions_.emplace_back(std::move(decision));
  if (tensor.plannable_from == kNotYet && tensor.executions >= tensor.renewed_from)
    tensor.plannable_from = tensor.executions + 1;
  ++tensor.executions;
  clear_arrivals(tensor);
  if (tensor.transient) forget(tensor);
}

void Negotiator::clear_arrivals(Tensor& tensor) {
  tensor.arrived.assign(size(), false);
  tensor.arrivals = 0;
  tensor.absent = 0;
  tensor.announced.clear();
}

void Negotiator::fail(Tensor& tensor, StatusCode code, const std::string& message) {
  wire::Fail decision{tensor.name_space, tensor.name, code, message, {}};
  for (const int rank : ranks_where(tensor.arrived, false))
    decision.without.push_back(static_cast<std::uint32_t>(rank));
  decisions_.emplace_back(std::move(decision));
  clear_arrivals(tensor);
  if (tensor.in_bucket()) dissolve(*tensor.bucket, nullptr);
  ++tensor.executions;
  if (tensor.id == 0) forget(tensor);
}

void Negotiator::fail_for_left_ranks(Tensor& tensor) {
  std::vector<int> missing;
  for (const int rank : left_order_) {
    if (!tensor.arrived[rank] && needs(tensor, rank)) missing.push_back(rank);
  }
  const int first = missing.front();
  missing.erase(missing.begin());
  fail(tensor, StatusCode::kPeerLost,
       in_words({first}) + " shut kolo down or exited before submitting tensor '" + tensor.name +
           "'" + (missing.empty() ? "" : " (so did " + in_words(missing) + " since)") + ", which " +
           in_words(ranks_where(tensor.arrived, true)) +
           " submitted; every rank must take part in every operation: look for an earlier exit, "
           "exception or different number of steps on " +
           in_words({first}));
}

// Rank 0's program has not used the tensor for long. One that other ranks have submitted already
// keeps its number, but is otherwise treated alike, so that their haste changes nothing.
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

}  // namespace kolo
