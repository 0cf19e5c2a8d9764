#include <mpi.h>

#include <kolo/mpi.h>

#include <thread>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using ProcessSets = WithKolo;

std::vector<int> ranks_from(int first, int last, int step = 1) {
  std::vector<int> ranks;
  for (int rank = first; rank <= last; rank += step) ranks.push_back(rank);
  return ranks;
}

TEST_F(ProcessSets, TheDefaultIsAllRanks) {
  const ProcessSet all;
  EXPECT_EQ(all.id(), 0);
  EXPECT_EQ(all.size(), size());
  EXPECT_EQ(all.rank(), rank());
  EXPECT_TRUE(all.included());
  EXPECT_EQ(all.ranks(), ranks_from(0, size() - 1));
}

// Every operation within the even and within the odd ranks, at the same time.
TEST_F(ProcessSets, EveryOperation) {
  const ProcessSet even = add_process_set(ranks_from(0, size() - 1, 2));
  ProcessSet odd;
  if (size() > 1) odd = add_process_set(ranks_from(1, size() - 1, 2));
  const ProcessSet mine = rank() % 2 == 0 ? even : odd;
  EXPECT_TRUE(mine.included());
  EXPECT_EQ(mine.rank(), rank() / 2);
  const int n = mine.size();
  const int root = mine.ranks().back();
  double sum = 0;
  for (const int r : mine.ranks()) sum += r;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const AllreduceOptions add = AllreduceOptions("x").op(ReduceOp::Sum).process_set(mine);
    EXPECT_TRUE(allreduce(at::full({3}, rank()), add).equal(at::full({3}, sum, at::kLong)));
    EXPECT_TRUE(allreduce(at::full({3}, rank(), at::kDouble), AllreduceOptions().process_set(mine))
                    .allclose(at::full({3}, sum / n, at::kDouble)));
    EXPECT_TRUE(grouped_allreduce({at::full({3}, rank())},
                                  AllreduceOptions("g").op(ReduceOp::Sum).process_set(mine))[0]
                    .equal(at::full({3}, sum, at::kLong)));
    const auto options = [&](const char* name) { return OperationOptions(name).process_set(mine); };
    EXPECT_TRUE(broadcast(at::full({2}, rank()), root, options("b")).equal(at::full({2}, root)));
    const at::Tensor gathered = allgather(at::full({1}, rank()), options("a"));
    EXPECT_TRUE(gathered.equal(at::arange(rank() % 2, size(), 2)));
    EXPECT_TRUE(alltoall(at::full({n}, rank()), {}, options("t")).output.equal(gathered));
    EXPECT_EQ(reducescatter(at::ones({2 * n}), add).size(0), 2);
    barrier(options("barrier"));
    EXPECT_TRUE(allreduce(at::ones({2}), "x").equal(at::ones({2}))) << "the same name, all ranks";
  }
  const at::Tensor w = at::full({2}, 1.0, at::kDouble).requires_grad_();
  (allreduce(w, AllreduceOptions(ReduceOp::Sum).process_set(mine)).sum() * (rank() + 1)).backward();
  EXPECT_TRUE(w.grad().allclose(at::full({2}, sum + n, at::kDouble)));
}

TEST_F(ProcessSets, OnlyMembersMayUseIt) {
  const ProcessSet first = add_process_set({0});
  if (rank() == 0) {
    EXPECT_EQ(allreduce(at::ones({2}), AllreduceOptions(ReduceOp::Sum).process_set(first))
                  .sum()
                  .item<float>(),
              2);
    EXPECT_THAT(message_of<InvalidArgumentError>(
                    [&] { broadcast(at::ones({2}), 1, OperationOptions("b").process_set(first)); }),
                HasSubstr("root rank 1 does not take part; choose one of rank 0"));
    return;
  }
  EXPECT_FALSE(first.included());
  EXPECT_THAT(message_of<InvalidArgumentError>(
                  [&] { allreduce(at::ones({2}), AllreduceOptions().process_set(first)); }),
              HasSubstr("is not a member of process set 1 (rank 0)"));
  EXPECT_THROW(first.rank(), InvalidArgumentError);
}

TEST_F(ProcessSets, WrongRanksAreErrors) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { add_process_set(std::vector<int>{}); }),
              HasSubstr("needs a rank"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] {
                add_process_set({0, size()});
              }),
              HasSubstr("is not between"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] {
                add_process_set({0, 0});
              }),
              HasSubstr("twice"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] { remove_process_set(ProcessSet()); }),
              HasSubstr("all ranks"));
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  EXPECT_THAT(message_of<MismatchError>([] { add_process_set({rank() == 0 ? 0 : 1}); }),
              HasSubstr("shape: [0] on rank 0; [1] on rank"));
  EXPECT_EQ(add_process_set({0}).id(), 1) << "the next one works";
}

TEST_F(ProcessSets, RemovedAndMadeBeforeShutdown) {
  const std::vector<int> everyone = ranks_from(0, size() - 1);
  const ProcessSet set = add_process_set(everyone);
  EXPECT_EQ(allreduce(at::ones({1}), AllreduceOptions().process_set(set)).item<float>(), 1);
  remove_process_set(set);
  EXPECT_THAT(message_of<InvalidArgumentError>(
                  [&] { allreduce(at::ones({1}), AllreduceOptions().process_set(set)); }),
              HasSubstr("process set 1 does not exist"));
  for (int i = 0; i < 20; ++i) remove_process_set(add_process_set({0}));
  const ProcessSet old = add_process_set({0});
  shutdown();
  const auto sets = init({{0}, everyone});
  EXPECT_EQ(sets[1].id(), 2);
  EXPECT_EQ(allreduce(at::ones({1}), AllreduceOptions().process_set(sets[1])).item<float>(), 1);
  EXPECT_THAT(message_of<InvalidArgumentError>(
                  [&] { allreduce(at::ones({1}), AllreduceOptions().process_set(old)); }),
              HasSubstr("was made before kolo::shutdown()"));
}

TEST_F(ProcessSets, OfCommunicators) {
  MPI_Comm comm = MPI_COMM_NULL;
  // All ranks but the last, split in two, in reverse order.
  const bool in = rank() < size() - 1 || size() == 1;
  MPI_Comm_split(MPI_COMM_WORLD, in ? rank() % 2 : MPI_UNDEFINED, -rank(), &comm);
  const ProcessSet set = add_process_set_from_comm(comm);
  if (comm != MPI_COMM_NULL) {
    int comm_rank = -1;
    MPI_Comm_rank(comm, &comm_rank);
    MPI_Comm_free(&comm);
    EXPECT_EQ(set.rank(), comm_rank);
    const at::Tensor gathered =
        allgather(at::full({1}, rank()), OperationOptions("a").process_set(set));
    for (int i = 0; i < set.size(); ++i)
      EXPECT_EQ(gathered[i].item<int>(), set.ranks()[static_cast<std::size_t>(i)]);
  } else {
    EXPECT_FALSE(set.included());
  }
}

TEST_F(ProcessSets, BusyAtTheSameTimeFromTwoThreads) {
  const ProcessSet one = add_process_set(ranks_from(0, size() - 1));
  const ProcessSet two = add_process_set(ranks_from(0, size() - 1));
  const auto work = [](const ProcessSet& set, int steps) {
    for (int step = 0; step < steps; ++step) {
      const AllreduceOptions options = AllreduceOptions("x").op(ReduceOp::Sum).process_set(set);
      ASSERT_TRUE(
          allreduce(at::full({1000}, step), options).equal(at::full({1000}, step * size())));
    }
  };
  std::thread other([&] { work(one, 100); });
  work(two, 150);
  other.join();
}

TEST_F(ProcessSets, AnOptimizerOfSomeRanks) {
  const ProcessSet set = add_process_set(ranks_from(0, (size() - 1) / 2));
  if (!set.included()) {
    const at::Tensor p = at::zeros({2}).requires_grad_();
    EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                  DistributedOptimizer<torch::optim::SGD>(
                      std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0),
                      DistributedOptimizerOptions().process_set(set));
                }),
                HasSubstr("not a member"));
    return;
  }
  const at::Tensor p = at::full({2}, static_cast<float>(rank())).requires_grad_();
  broadcast_parameters(std::vector<at::Tensor>{p}, 0, set);
  DistributedOptimizer<torch::optim::SGD> optimizer(std::vector<at::Tensor>{p},
                                                    torch::optim::SGDOptions(1.0),
                                                    DistributedOptimizerOptions().process_set(set));
  broadcast_optimizer_state(optimizer, 0, set);
  (p * (rank() + 1)).sum().backward();
  optimizer.step();
  EXPECT_TRUE(p.detach().allclose(at::full({2}, -(set.size() + 1) / 2.0F)));
}

}  // namespace
}  // namespace kolo
