// A rank that has no more data joins, and the others go on.
#include <future>

#include "adasum_reference.hpp"
#include "even_and_odd.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::adasum_of_all;
using testing_support::even_and_odd;
using testing_support::message_of;
using testing_support::own;
using testing_support::WithKolo;

using Join = WithKolo;
using Tensors = std::vector<at::Tensor>;

constexpr int kNobody = -1;

// All ranks but `joined`, in order.
std::vector<int> ranks_without(int joined) {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) {
    if (r != joined) ranks.push_back(r);
  }
  return ranks;
}

// Runs the work, which has a collective operation in it, on all ranks but one, which has joined.
template <typename Work>
void while_joined(int joined, const Work& work) {
  SCOPED_TRACE("rank " + std::to_string(joined) + " has joined");
  if (rank() != joined) work();
  const int last = join();
  EXPECT_TRUE(size() == 1 || last != joined) << "the others waited for it";
  EXPECT_EQ(allgather_object(last), std::vector<int>(static_cast<std::size_t>(size()), last));
}

struct Case {
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
  ReduceOp op;
  std::string name;
};

std::vector<Case> reductions(const std::string& prefix) {
  std::vector<Case> cases;
  for (const at::ScalarType dtype :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat,
        at::kDouble, at::kBool}) {
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{17}, {5, 6}, {2, 3, 5}}) {
      for (const ReduceOp op :
           {ReduceOp::Average, ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Product}) {
        const bool adds = op == ReduceOp::Average || op == ReduceOp::Sum;
        if (adds && dtype == at::kBool) continue;
        cases.push_back({dtype, shape, op, prefix + std::to_string(cases.size())});
      }
    }
  }
  return cases;
}

// What rank r has. A 0 among it would be seen: Min has positive numbers, the others negative ones
// if there are any. Few enough to be exact in every dtype.
at::Tensor input_of(int r, const Case& c) {
  const at::Tensor i = at::arange(at::empty(c.shape).numel(), at::kLong).reshape(c.shape);
  if (c.dtype == at::kBool) return i.remainder(5).eq(r).logical_or(i.remainder(7).eq(0));
  const at::Tensor small = (i + r).remainder(4) + 1;
  const bool negative = c.op != ReduceOp::Min && c.dtype != at::kByte;
  return (negative ? -small : small).to(c.dtype);
}

Tensors inputs_without(int joined, const Case& c) {
  Tensors inputs;
  for (const int r : ranks_without(joined)) inputs.push_back(input_of(r, c));
  return inputs;
}

// The reduction by LibTorch. Average divides by all ranks, joined or not.
at::Tensor reduced(const Tensors& inputs, const Case& c) {
  const bool floating = at::isFloatingType(c.dtype);
  const at::ScalarType exact = c.dtype == at::kDouble ? at::kDouble
                               : floating             ? at::kFloat
                                                      : at::kLong;
  const at::Tensor all = at::stack(inputs).to(exact);
  switch (c.op) {
    case ReduceOp::Sum:
      return all.sum(0).to(c.dtype);
    case ReduceOp::Average:
      return (floating ? all.sum(0) / size() : at::div(all.sum(0), size(), "trunc")).to(c.dtype);
    case ReduceOp::Min:
      return all.amin(0).to(c.dtype);
    case ReduceOp::Max:
      return all.amax(0).to(c.dtype);
    default:
      return all.prod(0).to(c.dtype);
  }
}

// All at once, so that they share buckets.
void check_reductions(const std::vector<Case>& cases, int joined) {
  std::vector<Handle> handles;
  for (const Case& c : cases)
    handles.push_back(allreduce_async(input_of(rank(), c), AllreduceOptions(c.name).op(c.op)));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const at::Tensor wanted = reduced(inputs_without(joined, c), c);
    const at::Tensor result = handles[i].wait();
    EXPECT_TRUE(result.equal(wanted)) << c.dtype << " " << c.shape.size()
                                      << " dimensions, operator " << static_cast<int>(c.op) << "\n"
                                      << result << wanted;
  }
}

TEST_F(Join, EveryReductionWhoeverIsFirst) {
  const std::vector<Case> known = reductions("known");
  for (int repeat = 0; repeat < 3; ++repeat) check_reductions(known, kNobody);
  for (int joined = 0; joined < size(); ++joined) {
    while_joined(joined, [&] {
      check_reductions(known, joined);
      check_reductions(reductions("new" + std::to_string(joined) + "."), joined);
    });
  }
  check_reductions(known, kNobody);
}

TEST_F(Join, GroupsOfReductions) {
  const std::vector<Case> group = {{at::kFloat, {3, 2}, ReduceOp::Max, ""},
                                   {at::kLong, {5}, ReduceOp::Max, ""},
                                   {at::kBool, {9}, ReduceOp::Max, ""},
                                   {at::kFloat, {40000}, ReduceOp::Max, ""}};
  Tensors mine;
  for (const Case& c : group) mine.push_back(input_of(rank(), c));
  for (int joined = 0; joined < size(); ++joined) {
    while_joined(joined, [&] {
      const Tensors results = grouped_allreduce(mine, AllreduceOptions("g").op(ReduceOp::Max));
      for (std::size_t i = 0; i < group.size(); ++i)
        EXPECT_TRUE(results[i].equal(reduced(inputs_without(joined, group[i]), group[i]))) << i;
    });
  }
}

// Rows of rank r for rank p; gathers are for all, p = 0.
at::Tensor rows(int r, int p, std::int64_t count) {
  return at::arange(2 * count, at::kLong).reshape({count, 2}) + 1000 * r + 100 * p;
}

TEST_F(Join, GathersHaveNoRowsOfAJoinedRank) {
  for (int joined = 0; joined < size(); ++joined) {
    while_joined(joined, [&] {
      Tensors gathered;
      Tensors received;
      Tensors for_all;
      std::vector<std::int64_t> splits;
      std::vector<std::int64_t> wanted_splits(static_cast<std::size_t>(size()), 0);
      std::vector<int> objects;
      for (int p = 0; p < size(); ++p) {
        splits.push_back(p + 1);
        for_all.push_back(rows(rank(), p, p + 1));
      }
      for (const int r : ranks_without(joined)) {
        gathered.push_back(rows(r, 0, r + 1));
        received.push_back(rows(r, rank(), rank() + 1));
        wanted_splits[static_cast<std::size_t>(r)] = rank() + 1;
        objects.push_back(r);
      }
      const at::Tensor mine = rows(rank(), 0, rank() + 1);
      EXPECT_TRUE(allgather(mine, "rows").equal(at::cat(gathered)));
      const Tensors group = grouped_allgather({mine, mine.to(at::kFloat)}, "group");
      EXPECT_TRUE(group[1].equal(at::cat(gathered).to(at::kFloat)));
      const AlltoallResult exchanged = alltoall(at::cat(for_all), splits, "exchange");
      EXPECT_TRUE(exchanged.output.equal(at::cat(received)));
      EXPECT_EQ(exchanged.received_splits, wanted_splits);
      EXPECT_EQ(allgather_object(rank(), "objects"), objects);
    });
  }
}

TEST_F(Join, ReducescatterAndBroadcastsOfTheOthers) {
  const Case c{at::kInt, {2 * size() + 1, 3}, ReduceOp::Average, ""};
  const std::int64_t begin = 2 * rank() + (rank() == 0 ? 0 : 1);
  const std::int64_t count = rank() == 0 ? 3 : 2;
  for (int joined = 0; joined < size(); ++joined) {
    while_joined(joined, [&] {
      const at::Tensor wanted = reduced(inputs_without(joined, c), c).narrow(0, begin, count);
      EXPECT_TRUE(reducescatter(input_of(rank(), c), "scatter").equal(wanted));
      EXPECT_TRUE(grouped_reducescatter({input_of(rank(), c)}, "scatters")[0].equal(wanted));
      for (const int root : ranks_without(joined)) {
        for (const std::int64_t extent : {3, 5000}) {
          const Case many{at::kInt, {extent, 3}, ReduceOp::Average, ""};
          const at::Tensor sum = reduced(inputs_without(joined, many), many);
          const at::Tensor mine = reduce(input_of(rank(), many), root, "reduce");
          EXPECT_TRUE(mine.equal(rank() == root ? sum : at::zeros_like(sum)));
        }
        EXPECT_TRUE(broadcast(input_of(rank(), c), root, "b").equal(input_of(root, c)));
        EXPECT_TRUE(
            grouped_broadcast({input_of(rank(), c)}, root, "bs")[0].equal(input_of(root, c)));
      }
    });
  }
}

TEST_F(Join, AdasumAndSparse) {
  const auto of_rank = [](int r) {
    torch::manual_seed(static_cast<std::uint64_t>(r));
    return torch::randn({100}, at::kDouble);
  };
  const auto sparse_of_rank = [](int r) {
    return at::sparse_coo_tensor(at::tensor({r, 5}, at::kLong).unsqueeze(0),
                                 at::full({2, 3}, r + 1.0), {6, 3});
  };
  for (int joined = 0; joined < size(); ++joined) {
    while_joined(joined, [&] {
      Tensors vectors;
      at::Tensor sum = at::zeros({6, 3});
      for (int r = 0; r < size(); ++r) {
        vectors.push_back(r == joined ? at::zeros({100}, at::kDouble) : of_rank(r));
        if (r != joined) sum += sparse_of_rank(r).to_dense();
      }
      EXPECT_TRUE(allreduce(of_rank(rank()), AllreduceOptions("adasum").op(ReduceOp::Adasum))
                      .allclose(adasum_of_all(at::stack(vectors)), 1e-12, 1e-12));
      EXPECT_TRUE(sparse_allreduce(sparse_of_rank(rank()), AllreduceOptions("sparse"))
                      .to_dense()
                      .allclose(sum / size()));
    });
  }
}

TEST_F(Join, ARootThatHasJoinedIsAnError) {
  if (size() == 1) GTEST_SKIP() << "there is nobody else";
  for (int joined = 0; joined < size(); ++joined) {
    const std::string why = "its root, rank " + std::to_string(joined) + ", has joined";
    while_joined(joined, [&] {
      const auto expect_error = [&](const std::function<void()>& action) {
        EXPECT_THAT(message_of<MismatchError>(action), HasSubstr(why));
      };
      const at::Tensor one = at::ones({2});
      expect_error([&] { broadcast(one, joined, "w"); });
      expect_error([&] { reduce(one, joined, "r"); });
      expect_error([&] { grouped_broadcast({one, one}, joined, "group"); });
      expect_error([&] { broadcast_parameters(Tensors{one}, joined); });
      expect_error([&] { broadcast_object(7, joined, "object"); });
      EXPECT_TRUE(allreduce(one, AllreduceOptions("next").op(ReduceOp::Sum))
                      .equal(at::full({2}, size() - 1.0F)));
    });
    EXPECT_TRUE(broadcast(at::full({2}, rank()), joined, "w").equal(at::full({2}, joined)));
  }
}

// Rank r has r + 1 batches.
TEST_F(Join, UnevenNumbersOfBatches) {
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int batch = 0; batch <= rank(); ++batch) {
      const int there = size() - batch;  // ranks that still take part
      EXPECT_TRUE(allreduce(at::ones({4}), AllreduceOptions("grad").op(ReduceOp::Sum))
                      .equal(at::full({4}, static_cast<float>(there))));
      EXPECT_TRUE(allreduce(at::ones({4}), AllreduceOptions("mean"))
                      .allclose(at::full({4}, static_cast<float>(there) / size())));
      EXPECT_TRUE(allreduce(at::full({4}, -5), AllreduceOptions("max").op(ReduceOp::Max))
                      .equal(at::full({4}, -5)));
      EXPECT_EQ(allgather(at::full({2}, rank()), "loss").size(0), 2 * there);
      EXPECT_TRUE(
          broadcast(at::full({2}, rank()), size() - 1, "b").equal(at::full({2}, size() - 1)));
    }
    EXPECT_EQ(join(), size() - 1);
  }
}

// Rank 0 joins the set of even ranks. That set, the odd ranks' one and all ranks, rank 0 among
// them, go on.
TEST_F(Join, OfAProcessSet) {
  const std::vector<ProcessSet> sets = even_and_odd();
  const ProcessSet& even = sets[0];
  const ProcessSet& mine = own(sets);
  const AllreduceOptions sum = AllreduceOptions("x").op(ReduceOp::Sum).process_set(mine);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::future<int> joined;
    if (rank() == 0) joined = std::async(std::launch::async, [&] { return join(even); });
    const int there = mine.size() - (rank() % 2 == 0 ? 1 : 0);
    for (int batch = 0; batch < 5; ++batch) {
      if (rank() != 0) {
        EXPECT_TRUE(allreduce(at::ones({9}), sum).equal(at::full({9}, static_cast<float>(there))));
      }
      EXPECT_TRUE(allreduce(at::ones({9}), AllreduceOptions("x").op(ReduceOp::Sum))
                      .equal(at::full({9}, static_cast<float>(size()))));
    }
    if (rank() % 2 == 1) continue;
    const int last = rank() == 0 ? joined.get() : join(even);
    EXPECT_TRUE(even.size() == 1 || last != 0);
    EXPECT_EQ(allgather_object(last, OperationOptions("last").process_set(even)),
              std::vector<int>(static_cast<std::size_t>(even.size()), last));
  }
}

// A rank that runs out of data counts fewer unnamed operations than the others. After the join all
// count alike again, or they would wait for each other's names.
TEST_F(Join, UnnamedOperationsMatchAfterUnevenLoops) {
  for (int round = 0; round < 3; ++round) {
    const int steps = 2 + 3 * ((rank() + round) % size());
    for (int step = 0; step < steps; ++step) allreduce(at::ones({3}));
    join();
    const at::Tensor sum = allreduce(at::ones({2}), ReduceOp::Sum);
    EXPECT_TRUE(sum.equal(at::full({2}, size()))) << "round " << round;
  }
}

// Two named tensors change their shapes while each rank in turn has joined: the stand-ins of that
// rank have the new shapes, too.
TEST_F(Join, WhileShapesChange) {
  const auto reduce_both = [](int round) {
    const std::int64_t few = round % 2 == 0 ? 25 : 125;
    const std::int64_t many = round % 2 == 0 ? 289 : 4913;
    Handle first = allreduce_async(at::ones({few}), AllreduceOptions("a").op(ReduceOp::Sum));
    Handle second = allreduce_async(at::ones({many}), AllreduceOptions("b").op(ReduceOp::Sum));
    return std::pair(second.wait(), first.wait());
  };
  for (int round = 0; round < 60; ++round) {
    const bool all_before = round / 2 % 2 == 1;
    const int joined = round % size();
    if (all_before) reduce_both(round);
    while_joined(joined, [&] {
      const auto [many, few] = reduce_both(round + (all_before ? 0 : 1));
      EXPECT_TRUE(few.eq(size() - 1).all().item<bool>()) << "round " << round;
      EXPECT_TRUE(many.eq(size() - 1).all().item<bool>()) << "round " << round;
    });
  }
}

}  // namespace
}  // namespace kolo
