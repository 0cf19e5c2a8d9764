// Barriers. Ranks tell each other by MPI how far they are, and compare when they came and passed.
#include <mpi.h>

#include <chrono>
#include <thread>

#include "even_and_odd.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::even_and_odd;
using testing_support::message_of;
using testing_support::own;
using testing_support::WithKolo;

using Barrier = WithKolo;

void tell(int rank_of_other) {
  MPI_Send(nullptr, 0, MPI_BYTE, rank_of_other, 0, MPI_COMM_WORLD);
}

void wait_to_be_told(int rank_of_other) {
  MPI_Recv(nullptr, 0, MPI_BYTE, rank_of_other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// The same clock for all processes of a machine.
at::Tensor now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return at::full({1}, std::chrono::nanoseconds(time).count(), at::kLong);
}

// This rank has passed when all of the set had come.
void pass(const std::string& name, const ProcessSet& set) {
  const at::Tensor came = now();
  barrier(OperationOptions(name).process_set(set));
  const at::Tensor passed = now();
  const at::Tensor last = allgather(came, OperationOptions("came").process_set(set)).max();
  EXPECT_TRUE(last.le(passed).item<bool>()) << (last - passed).item<std::int64_t>() << " ns early";
}

// Long enough for those who would not wait.
void be_late() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST_F(Barrier, NobodyPassesBeforeTheLastHasCome) {
  for (int late = 0; late < size(); ++late) {
    SCOPED_TRACE("late: rank " + std::to_string(late));
    for (const char* name : {"", "named"}) {
      if (rank() != late) tell(late);
      for (int r = 0; rank() == late && r < size(); ++r) {
        if (r != late) wait_to_be_told(r);
      }
      if (rank() == late) be_late();
      pass(name, ProcessSet());
    }
  }
}

// The odd ranks pass theirs again and again while a rank is missing at the even ones'.
TEST_F(Barrier, OfAProcessSet) {
  if (size() == 1) GTEST_SKIP() << "needs 2 ranks";
  const std::vector<ProcessSet> sets = even_and_odd();
  for (const int late : sets[0].ranks()) {
    if (rank() % 2 == 1) {
      for (int i = 0; i < 5; ++i) pass("b", sets[1]);
      tell(late);
      continue;
    }
    for (int r = 1; rank() == late && r < size(); r += 2) wait_to_be_told(r);
    if (rank() == late) be_late();
    pass("b", sets[0]);
  }
}

// Half of the ranks come before they submit anything, half after it.
TEST_F(Barrier, WithCollectivesInFlight) {
  for (int repeat = 0; repeat < 4; ++repeat) {
    if (rank() % 2 == 0) barrier("b");
    Handle sent = broadcast_async(at::full({40}, rank()), size() - 1, "broadcast");
    Handle rows = allgather_async(at::full({rank() + 1}, rank()), "rows");
    Handle more = allgather_async(at::full({2}, rank()), "more");
    Handle sum = allreduce_async(at::full({50000}, rank()), AllreduceOptions(ReduceOp::Sum));
    if (rank() % 2 == 1) barrier("b");
    const at::Tensor ranks = at::arange(size());
    EXPECT_TRUE(sent.wait().equal(at::full({40}, size() - 1)));
    EXPECT_TRUE(rows.wait().equal(ranks.repeat_interleave(ranks + 1)));
    EXPECT_TRUE(more.wait().equal(ranks.repeat_interleave(2)));
    EXPECT_TRUE(sum.wait().equal(at::full({50000}, size() * (size() - 1) / 2)));
  }
}

TEST_F(Barrier, AgainstAnotherOperation) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  EXPECT_THAT(message_of<MismatchError>([] {
                if (rank() == 0) barrier();
                if (rank() != 0) allreduce(at::ones({2}));
              }),
              HasSubstr("operation: barrier on rank 0; allreduce on rank"));
  barrier();
}

}  // namespace
}  // namespace kolo
