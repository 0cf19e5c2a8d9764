#include <mpi.h>

#include <kolo/mpi.h>

#include <cstdlib>
#include <map>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Operations = WithKolo;

constexpr at::ScalarType kNumbers[] = {at::kByte, at::kChar,     at::kShort, at::kInt,   at::kLong,
                                       at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};

at::Tensor mine(at::IntArrayRef shape, at::ScalarType dtype) {
  const std::int64_t count = at::empty(shape).numel();
  return (at::arange(count, at::kLong).remainder(5) + kolo::rank()).reshape(shape).to(dtype);
}

at::Tensor sum_of_all(at::IntArrayRef shape, at::ScalarType dtype) {
  const std::int64_t count = at::empty(shape).numel();
  const std::int64_t n = kolo::size();
  return (at::arange(count, at::kLong).remainder(5) * n + n * (n - 1) / 2).reshape(shape).to(dtype);
}

TEST_F(Operations, WhoAmI) {
  int world_rank = -1;
  int world_size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(rank(), world_rank);
  EXPECT_EQ(size(), world_size);
  EXPECT_EQ(local_rank(), world_rank);
  EXPECT_EQ(local_size(), world_size);
  EXPECT_EQ(cross_rank(), 0);
  EXPECT_EQ(cross_size(), 1);
  EXPECT_TRUE(is_homogeneous());
  init();  // does nothing
  EXPECT_EQ(rank(), world_rank);
}

TEST_F(Operations, ExportsTheEnvironmentOfOtherLaunchers) {
  EXPECT_EQ(std::string(std::getenv("RANK")), std::to_string(rank()));
  EXPECT_EQ(std::string(std::getenv("WORLD_SIZE")), std::to_string(size()));
  EXPECT_EQ(std::string(std::getenv("LOCAL_RANK")), std::to_string(local_rank()));
  ASSERT_NE(std::getenv("MASTER_ADDR"), nullptr);
  at::Tensor port = at::full({1}, std::atoi(std::getenv("MASTER_PORT")), at::kLong);
  EXPECT_GT(port.item<int>(), 0);
  EXPECT_TRUE(broadcast(port, 0).equal(port)) << "the same port on every rank";
}

TEST_F(Operations, AllreduceEveryDtypeAndShape) {
  for (const at::ScalarType dtype : kNumbers) {
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{}, {0}, {1}, {17}, {5, 7}, {3, 1, 300}}) {
      const at::Tensor input = mine(shape, dtype);
      const at::Tensor before = input.clone();
      const at::Tensor result = allreduce(input, ReduceOp::Sum);
      EXPECT_TRUE(result.equal(sum_of_all(shape, dtype))) << dtype << " " << result;
      EXPECT_TRUE(input.equal(before)) << "the input is not changed";
      EXPECT_EQ(result.scalar_type(), dtype);
    }
  }
}

TEST_F(Operations, Operators) {
  const int n = size();
  const at::Tensor input = at::full({3}, rank() + 1, at::kFloat);
  EXPECT_TRUE(allreduce(input).equal(at::full({3}, (n + 1) / 2.0F))) << "Average is the default";
  EXPECT_TRUE(allreduce(input, ReduceOp::Min).equal(at::full({3}, 1.0F)));
  EXPECT_TRUE(allreduce(input, ReduceOp::Max).equal(at::full({3}, static_cast<float>(n))));
  float factorial = 1;
  for (int i = 2; i <= n; ++i) factorial *= static_cast<float>(i);
  EXPECT_TRUE(allreduce(input, ReduceOp::Product).equal(at::full({3}, factorial)));
  EXPECT_TRUE(
      allreduce(at::full({2}, rank() + 1, at::kLong)).equal(at::full({2}, (n + 1) / 2, at::kLong)));
  const auto scaled = AllreduceOptions(ReduceOp::Sum).prescale_factor(0.5).postscale_factor(4);
  EXPECT_TRUE(allreduce(input, scaled).equal(at::full({3}, static_cast<float>(n * (n + 1)))));
}

TEST_F(Operations, Bools) {
  const at::Tensor only_rank_0 = at::full({2}, rank() == 0, at::kBool);
  EXPECT_TRUE(allreduce(only_rank_0, ReduceOp::Max).all().item<bool>());
  EXPECT_EQ(allreduce(only_rank_0, ReduceOp::Min).all().item<bool>(), size() == 1);
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { allreduce(only_rank_0, op); }),
                HasSubstr("use Max"));
  }
}

TEST_F(Operations, InPlace) {
  at::Tensor tensor = mine({100}, at::kFloat);
  const at::Tensor result = allreduce_(tensor, ReduceOp::Sum);
  EXPECT_TRUE(result.is_same(tensor));
  EXPECT_TRUE(tensor.equal(sum_of_all({100}, at::kFloat)));
}

TEST_F(Operations, StridesAreKept) {
  at::Tensor transposed = mine({6, 4}, at::kFloat).t();
  EXPECT_TRUE(allreduce(transposed, ReduceOp::Sum).equal(sum_of_all({6, 4}, at::kFloat).t()));
  at::Tensor base = at::zeros({10, 10});
  at::Tensor view = base.slice(0, 2, 8, 2).slice(1, 1, 9);
  view.copy_(mine({3, 8}, at::kFloat));
  allreduce_(view, ReduceOp::Sum);
  EXPECT_TRUE(base.slice(0, 2, 8, 2).slice(1, 1, 9).equal(sum_of_all({3, 8}, at::kFloat)));
  EXPECT_EQ(base.sum().item<float>(), sum_of_all({3, 8}, at::kFloat).sum().item<float>())
      << "nothing else was written";
  at::Tensor channels_last =
      mine({2, 3, 4, 5}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  const auto strides = channels_last.strides().vec();
  allreduce_(channels_last, ReduceOp::Sum);
  EXPECT_EQ(channels_last.strides().vec(), strides);
  EXPECT_TRUE(channels_last.equal(sum_of_all({2, 3, 4, 5}, at::kFloat)));
}

// Out of place, the ranks' strides may differ. In place they may not, because a dense tensor is
// reduced where it lies.
TEST_F(Operations, StridesThatDifferBetweenRanks) {
  at::Tensor mixed = mine({6, 4}, at::kFloat);
  if (rank() % 2 == 1) mixed = mixed.t().contiguous().t();
  EXPECT_TRUE(allreduce(mixed, ReduceOp::Sum).equal(sum_of_all({6, 4}, at::kFloat)));
  if (size() > 1) {
    EXPECT_THAT(message_of<MismatchError>([&] { allreduce_(mixed, ReduceOp::Sum); }),
                HasSubstr("memory: contiguous on rank"));
  }
  const at::Tensor from = mine({6, 4}, at::kFloat);
  at::Tensor everywhere = broadcast(from, 0);
  broadcast_(mixed, 0);
  EXPECT_TRUE(mixed.equal(everywhere));
}

TEST_F(Operations, DenseTensorsAreReducedWhereTheyLie) {
  const at::Tensor tensor = at::empty_strided({1 << 16, 16, 2, 2}, {64, 1, 32, 16});
  const std::size_t bytes = tensor.nbytes();
  tensor.fill_(rank() + 1);
  const std::size_t before = arena_statistics().peak;
  allreduce_(tensor);
  grouped_allreduce_({tensor, at::ones({3, 2}).t()});
  EXPECT_LT(arena_statistics().peak, before + bytes / 2) << "there was no copy";
  EXPECT_TRUE(tensor.equal(at::full_like(tensor, (size() + 1) / 2.0)));
}

TEST_F(Operations, AsyncInAnyOrder) {
  for (int step = 0; step < 4; ++step) {
    std::vector<at::Tensor> tensors;
    std::vector<Handle> handles;
    for (int i = 0; i < 30; ++i) tensors.push_back(mine({i * 40}, at::kFloat));
    for (int k = 0; k < 30; ++k) {
      const int i = rank() % 2 == 0 ? k : 29 - k;
      handles.push_back(allreduce_async_(
          tensors[i], AllreduceOptions(ReduceOp::Sum).name("t" + std::to_string(i))));
    }
    for (Handle& handle : handles) handle.wait();
    for (int i = 0; i < 30; ++i)
      ASSERT_TRUE(tensors[i].equal(sum_of_all({i * 40}, at::kFloat))) << "step " << step;
  }
}

TEST_F(Operations, HandlesAreMovedAndAsked) {
  static_assert(!std::is_copy_constructible_v<Handle> && !std::is_copy_assignable_v<Handle>);
  Handle first = allreduce_async(at::ones({4}), "x");
  Handle second = std::move(first);
  EXPECT_THROW(first.wait(),
               InvalidArgumentError);  // NOLINT(bugprone-use-after-move): what is tested
  while (!second.ready()) {
  }
  EXPECT_TRUE(second.wait().equal(at::ones({4})));
  EXPECT_TRUE(second.wait(Handle::Seconds(0)).equal(at::ones({4})))
      << "a second wait gives the same";
}

TEST_F(Operations, AWaitTimesOutWithoutLosingAnything) {
  if (size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  at::Tensor go = at::ones({1});
  if (rank() != 0) broadcast_(go, 0, "go");
  Handle handle = allreduce_async(at::ones({4}), AllreduceOptions(ReduceOp::Sum).name("late"));
  if (rank() == 0) {
    EXPECT_THAT(message_of<TimeoutError>([&] { handle.wait(Handle::Seconds(0.05)); }),
                HasSubstr("'late'"));
    broadcast_(go, 0, "go");
  }
  EXPECT_TRUE(handle.wait().equal(at::full({4}, static_cast<float>(size()))));
}

TEST_F(Operations, ADroppedHandleIsNotLost) {
  at::Tensor tensor = mine({1000}, at::kFloat);
  const at::Tensor wanted = sum_of_all({1000}, at::kFloat);
  { Handle dropped = allreduce_async_(tensor, AllreduceOptions(ReduceOp::Sum).name("dropped")); }
  allreduce(at::ones({1}), "after");
  shutdown();  // ends what every rank has submitted
  EXPECT_TRUE(tensor.equal(wanted));
}

TEST_F(Operations, Broadcast) {
  for (int root = 0; root < size(); ++root) {
    for (const at::ScalarType dtype : kNumbers) {
      at::Tensor tensor = at::full({33}, rank() * 3, at::kLong).to(dtype);
      EXPECT_TRUE(broadcast(tensor, root).equal(at::full({33}, root * 3, at::kLong).to(dtype)));
      EXPECT_TRUE(broadcast_(tensor, root, "named").is_same(tensor));
      EXPECT_TRUE(tensor.equal(at::full({33}, root * 3, at::kLong).to(dtype)));
    }
  }
  EXPECT_TRUE(broadcast(at::full({3}, rank() == 0, at::kBool), 0).all().item<bool>());
  for (const int root : {-1, size()}) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { broadcast(at::ones({1}), root); }),
                HasSubstr("root rank " + std::to_string(root)));
  }
}

// Each disagreement is told on every rank, with what differs; and the next operation works.
TEST_F(Operations, MismatchesNameTensorRanksAndDifference) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const bool odd = rank() == size() - 1;
  const std::string last = "rank " + std::to_string(size() - 1);
  const auto expect_mismatch = [&](const std::string& difference,
                                   const std::function<void()>& action) {
    const std::string message = message_of<MismatchError>(action);
    EXPECT_THAT(message, HasSubstr("'w'"));
    EXPECT_THAT(message, HasSubstr(difference + " on " + last));
    EXPECT_TRUE(allreduce(at::ones({2}), "w").equal(at::ones({2})));
  };
  expect_mismatch("[3, 2]", [&] { allreduce(odd ? at::ones({3, 2}) : at::ones({2, 3}), "w"); });
  expect_mismatch("float64",
                  [&] { allreduce(at::ones({2}, odd ? at::kDouble : at::kFloat), "w"); });
  expect_mismatch("Max", [&] {
    allreduce(at::ones({2}), AllreduceOptions(odd ? ReduceOp::Max : ReduceOp::Sum).name("w"));
  });
  expect_mismatch("1", [&] { broadcast(at::ones({2}), odd ? 1 : 0, "w"); });
}

TEST_F(Operations, ANameInFlightIsRefused) {
  at::Tensor go = at::ones({1});
  const bool last = rank() == size() - 1;
  if (last && size() > 1) broadcast_(go, 0, "go");  // keeps "twice" in flight on the others
  Handle first = allreduce_async(at::ones({4}), "twice");
  if (!last) {
    EXPECT_THAT(
        message_of<DuplicateNameError>([] { Handle h = allreduce_async(at::ones({4}), "twice"); }),
        HasSubstr("'twice'"));
    broadcast_(go, 0, "go");
  }
  EXPECT_TRUE(first.wait().equal(at::ones({4})));
  EXPECT_TRUE(allreduce(at::ones({4}), "twice").equal(at::ones({4})));
}

// As in Horovod. Ranks that mean different kinds under one name wait for each other: see
// jobs/stalls.sh.
TEST_F(Operations, OperationsOfDifferentKindsMayShareAName) {
  const int ranks = size();
  for (int step = 0; step < 5; ++step) {
    const at::Tensor mine = at::full({ranks}, rank() + 1);
    std::vector<std::function<Handle()>> kinds = {
        [&] { return allreduce_async(mine, AllreduceOptions(ReduceOp::Sum).name("w")); },
        [&] { return broadcast_async(mine, 0, "w"); },
        [&] { return allgather_async(mine, "w"); },
        [&] { return reducescatter_async(mine, ReducescatterOptions(ReduceOp::Sum).name("w")); },
    };
    const int sum = ranks * (ranks + 1) / 2;
    const std::vector<at::Tensor> results = {at::full({ranks}, sum), at::full({ranks}, 1),
                                             at::arange(1, ranks + 1).repeat_interleave(ranks),
                                             at::full({1}, sum)};
    std::map<std::size_t, Handle> handles;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::size_t kind = (i + static_cast<std::size_t>(rank())) % kinds.size();
      handles.emplace(kind, kinds[kind]());
    }
    for (std::size_t kind = 0; kind < kinds.size(); ++kind)
      EXPECT_TRUE(handles.at(kind).wait().equal(results[kind])) << "kind " << kind;
  }
}

TEST_F(Operations, WrongTensors) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { allreduce(at::Tensor(), "u"); }),
              HasSubstr("undefined"));
  EXPECT_THAT(
      message_of<InvalidArgumentError>([] { allreduce(at::ones({2}, at::kComplexHalf), "c"); }),
      HasSubstr("ComplexHalf"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] { allreduce(at::eye(3).to_sparse(), "s"); }),
              HasSubstr("to_dense"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] { allreduce_(at::ones({1}).expand({4}), "e"); }),
              HasSubstr("share memory"));
  EXPECT_TRUE(allreduce(at::ones({1}).expand({4}), "e").equal(at::ones({4})))
      << "fine when not in place";
}

TEST_F(Operations, AutogradNoticesChangesInPlace) {
  at::Tensor x = at::ones({3});
  at::Tensor w = at::ones({3}).requires_grad_();
  const at::Tensor product = w * x;  // saves x for backward
  allreduce_(x);
  EXPECT_THROW(product.sum().backward(), c10::Error);
  EXPECT_FALSE(allreduce_async(w, "async").wait().requires_grad());
}

TEST_F(Operations, AfterShutdownEverythingSaysSo) {
  Handle before = allreduce_async(at::ones({4}), "before");
  shutdown();
  EXPECT_TRUE(before.wait().equal(at::ones({4})));
  EXPECT_FALSE(is_initialized());
  EXPECT_THAT(message_of<NotInitializedError>([] { allreduce(at::ones({1})); }),
              HasSubstr("kolo::init()"));
  EXPECT_THROW(rank(), NotInitializedError);
  shutdown();  // does nothing
}

TEST_F(Operations, InitShutdownInit) {
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(allreduce(at::ones({8}), AllreduceOptions(ReduceOp::Sum))
                    .equal(at::full({8}, static_cast<float>(size()))));
    shutdown();
    init();
  }
}

TEST(OnACommunicator, TheApplicationGoesOnUsingItsMpi) {
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &half);
  kolo::init(half);
  int half_rank = -1;
  MPI_Comm_rank(half, &half_rank);
  EXPECT_EQ(rank(), half_rank);
  Handle handle = allreduce_async(at::full({1000}, world_rank % 2, at::kFloat));
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);  // while kolo works
  EXPECT_EQ(sum, size());
  EXPECT_TRUE(handle.wait().equal(at::full({1000}, world_rank % 2, at::kFloat)));
  shutdown();
  MPI_Barrier(half);
  MPI_Comm_free(&half);
}

}  // namespace
}  // namespace kolo
