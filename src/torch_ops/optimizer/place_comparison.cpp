#include "torch_ops/optimizer/place_comparison.hpp"

#include <ATen/ATen.h>

#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "core/ranks.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/operations.h"
#include "torch_ops/ops/call.hpp"

namespace kolo::detail {
namespace {

// Ranks compare numbers by their sums: n numbers x are equal if and only if n * sum(x * x) is equal
// to sum(x) * sum(x) (Cauchy-Schwarz). Joined ranks add nothing to n or to the sums. The numbers
// are below this, so that nothing overflows.
constexpr std::int64_t kLargestCompared = std::int64_t{1} << 16;

at::Tensor to_compare(std::initializer_list<std::int64_t> numbers) {
  std::vector<std::int64_t> summands = {1};
  for (const std::int64_t number : numbers) {
    const std::int64_t compared = number % kLargestCompared;
    summands.insert(summands.end(), {compared, compared * compared});
  }
  return at::tensor(summands, at::kLong);
}

// `sums` is the sum of all ranks' to_compare().
bool are_equal(const at::Tensor& sums) {
  const auto all = sums.accessor<std::int64_t, 1>();
  for (std::int64_t i = 1; i < all.size(0); i += 2) {
    if (all[0] * all[i + 1] != all[i] * all[i]) return false;
  }
  return true;
}

}  // namespace

// Stall reports show this name.
std::string PlaceComparison::name() const {
  return "backward() or step() of " + options_.name();
}

void PlaceComparison::submit() {
  ranks_ = options_.process_set().size();
  if (ranks_ == 1) return;
  in_flight_ = allreduce_async_(
      to_compare({steps_, reductions_, options_.average_over_joined() ? 1 : 0}),
      AllreduceOptions(name()).op(ReduceOp::Sum).process_set(options_.process_set()));
}

void PlaceComparison::give_up(const std::string& why) const {
  if (options_.process_set().size() == 1) return;
  Call("DistributedOptimizer", "allreduce", OpKind::kAllreduce, name(), options_.process_set())
      .give_up(why);
}

void PlaceComparison::check() {
  auto comparison = std::exchange(in_flight_, {});
  if (!comparison) return;
  const at::Tensor sums = comparison->wait();
  ranks_ = sums[0].item<std::int64_t>();
  if (!are_equal(sums)) report_difference();
}

// All ranks come here, because all have the same sums.
void PlaceComparison::report_difference() const {
  const std::int64_t over_joined = options_.average_over_joined() ? 1 : 0;
  const at::Tensor all = allgather(
      at::tensor({std::int64_t{rank()}, steps_, reductions_, over_joined}, at::kLong).view({1, 4}),
      OperationOptions(name() + ": which one").process_set(options_.process_set()));
  const auto places = all.accessor<std::int64_t, 2>();
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> ranks_at;
  for (std::int64_t i = 0; i < all.size(0); ++i)
    ranks_at[{places[i][1], places[i][2]}].push_back(static_cast<int>(places[i][0]));
  if (ranks_at.size() == 1) {
    throw MismatchError("DistributedOptimizer '" + options_.name() +
                        "': the option average_over_joined differs between ranks");
  }
  std::string text;
  for (const auto& [at, who] : ranks_at) {
    if (!text.empty()) text += "; ";
    text += "backward() " + std::to_string(at.second + 1) + " of step " +
            std::to_string(at.first + 1) + " on " + rank_list(who);
  }
  throw MismatchError("DistributedOptimizer '" + options_.name() +
                      "': the ranks reduce gradients of different passes: " + text +
                      ". All ranks must call backward() and step() equally often. Add losses up "
                      "before one backward(); a rank with fewer batches calls join()");
}

void PlaceComparison::end_step() {
  ++steps_;
  reductions_ = 0;
}

void PlaceComparison::start_over() {
  steps_ = 0;
  reductions_ = 0;
}

}  // namespace kolo::detail
