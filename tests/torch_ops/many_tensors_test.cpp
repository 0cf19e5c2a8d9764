// Many tensors in flight, and what float16 and bfloat16 lose.
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>

#include "tables.hpp"

namespace kolo::tables {
namespace {

using ManyTensors = WithKolo;

constexpr std::size_t kMany = 1000;

Tensors whole_values_of(int rank, int step) {
  Tensors values;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kInt})
    values.push_back(values_of(rank, {64 + 13}, dtype, step));
  return values;
}

// Tensor i: 1 to 64 elements of a rank's values.
at::Tensor part(const Tensors& values, std::size_t i) {
  return values[i % 4].narrow(0, static_cast<std::int64_t>(i % 13),
                              static_cast<std::int64_t>(i % 64 + 1));
}

// Each step has other values, and on each rank another order.
void reduce_in_any_order(int step) {
  const Tensors mine = whole_values_of(rank(), step);
  Tensors sums = whole_values_of(0, step);
  for (int r = 1; r < size(); ++r) {
    const Tensors others = whole_values_of(r, step);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += others[i];
  }
  std::vector<std::size_t> order(kMany);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(rank() + 10 * step)));
  std::vector<std::optional<Handle>> handles(kMany);
  for (const std::size_t i : order) {
    handles[i] = allreduce_async(part(mine, i),
                                 AllreduceOptions(ReduceOp::Sum).name("many" + std::to_string(i)));
  }
  Tensors results;
  for (std::optional<Handle>& handle : handles) results.push_back(handle->wait());
  for (std::size_t i = 0; i < kMany; ++i)
    ASSERT_TRUE(results[i].equal(part(sums, i))) << "step " << step << ", tensor " << i;
}

TEST_F(ManyTensors, InAnyOrder) {
  for (int step = 0; step < 4; ++step) reduce_in_any_order(step);
}

TEST_F(ManyTensors, InAnyOrderWithoutFusionOrCache) {
  for (const char* setting : {"KOLO_FUSION_THRESHOLD", "KOLO_CACHE_CAPACITY"}) {
    shutdown();
    // NOLINTBEGIN(concurrency-mt-unsafe): no other thread reads or writes it
    ::setenv(setting, "0", 1);
    init();
    ::unsetenv(setting);
    // NOLINTEND(concurrency-mt-unsafe)
    for (int step = 0; step < 4; ++step) reduce_in_any_order(step);
  }
}

template <typename Options>
Options named(Options options, const std::string& name) {
  return options.name(name);
}

// An operation and its results for some inputs.
struct Kind {
  std::function<Handle(const at::Tensor& tensor, const std::string& name)> start;
  Tensors wanted;
};

std::vector<Kind> every_kind(const ProcessSet& set, const Specs& specs) {
  const auto sum = AllreduceOptions(ReduceOp::Sum).process_set(set);
  const auto largest = AllreduceOptions(ReduceOp::Max).process_set(set);
  const auto plain = OperationOptions().process_set(set);
  const int root = set.ranks().back();
  return {
      {[=](const auto& t, const auto& name) { return allreduce_async(t, named(sum, name)); },
       expected(set, specs, [=](const Tensors& all, int) { return reduced(all, sum); })},
      {[=](const auto& t, const auto& name) {
         return broadcast_async(t, root, named(plain, name));
       },
       inputs_of(root, specs)},
      {[=](const auto& t, const auto& name) { return allgather_async(t, named(plain, name)); },
       expected(set, specs, [](const Tensors& all, int) { return at::cat(all); })},
      {[=](const auto& t, const auto& name) {
         return reducescatter_async(t, named(largest, name));
       },
       expected(set, specs,
                [=](const Tensors& all, int place) {
                  return share(reduced(all, largest), all.size(), place);
                })},
  };
}

// All of every kind in flight at once; with names, every second rank begins with the last one.
void run_at_once(const std::vector<Kind>& kinds, const Tensors& inputs, bool with_names) {
  const std::size_t count = kinds.size() * inputs.size();
  std::vector<std::optional<Handle>> handles(count);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = with_names && rank() % 2 == 1 ? count - 1 - k : k;
    handles[i] = kinds[i % kinds.size()].start(inputs[i / kinds.size()],
                                               with_names ? "t" + std::to_string(i) : "");
  }
  for (std::size_t i = 0; i < count; ++i)
    expect_near(handles[i]->wait(), kinds[i % kinds.size()].wanted[i / kinds.size()]);
}

TEST_F(ManyTensors, OfDifferentOperations) {
  const Specs specs = {kNumbers, 1, 3};
  for (const ProcessSet& set : sets_of_this_rank()) {
    SCOPED_TRACE(to_text(set));
    const std::vector<Kind> all = every_kind(set, specs);
    for (int repeat = 0; repeat < 4; ++repeat) {
      run_at_once(all, inputs_of(rank(), specs), true);
      run_at_once(all, inputs_of(rank(), specs), false);
    }
  }
}

Tensors random_inputs(int rank, int step, at::ScalarType dtype, std::size_t tensors,
                      std::int64_t elements) {
  torch::manual_seed(rank + 100 * step);
  Tensors inputs;
  for (std::size_t i = 0; i < tensors; ++i) inputs.push_back(at::randn({elements}).to(dtype));
  return inputs;
}

// Each of the n - 1 additions rounds once, to the nearest, what is at most the sum of all absolute
// values (and of what was rounded up before). Every rank has the same bits.
void expect_rounded_sum(const at::Tensor& result, const Tensors& inputs) {
  const double half_precision = precision_of(result.scalar_type()) / 2;
  const auto n = static_cast<double>(inputs.size());
  const at::Tensor all = at::stack(inputs).to(at::kDouble);
  const at::Tensor bound = all.abs().sum(0) * ((n - 1) * half_precision * (1 + n * half_precision));
  const at::Tensor off = (result.to(at::kDouble) - all.sum(0)).abs();
  EXPECT_TRUE(off.le(bound).all().item<bool>()) << result.scalar_type() << " " << result.numel();
  EXPECT_TRUE(broadcast(result, 0).equal(result));
}

TEST_F(ManyTensors, LowPrecisionRoundsOnceAnAddition) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
    for (const std::int64_t elements : {1, 10007, 300007}) {  // the last one in a ring
      Tensors inputs;
      for (int r = 0; r < size(); ++r) inputs.push_back(random_inputs(r, 0, dtype, 1, elements)[0]);
      expect_rounded_sum(allreduce(inputs[rank()], ReduceOp::Sum), inputs);
    }
  }
}

// The same names again and again: from the third time on they share a bucket.
TEST_F(ManyTensors, LowPrecisionInABucket) {
  constexpr std::size_t kTensors = 6;
  for (int step = 0; step < 4; ++step) {
    for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
      std::vector<Tensors> inputs;
      for (int r = 0; r < size(); ++r)
        inputs.push_back(random_inputs(r, step, dtype, kTensors, 1009));
      const Tensors results = all_at_once(allreduce_async)(
          inputs[rank()], AllreduceOptions(ReduceOp::Sum).name(c10::toString(dtype)));
      for (std::size_t i = 0; i < kTensors; ++i) {
        Tensors of_ranks;
        for (const Tensors& of_rank : inputs) of_ranks.push_back(of_rank[i]);
        expect_rounded_sum(results[i], of_ranks);
      }
    }
  }
}

}  // namespace
}  // namespace kolo::tables
