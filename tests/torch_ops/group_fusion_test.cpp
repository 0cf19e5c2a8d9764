// KOLO_DISABLE_GROUP_FUSION: tensors of a group travel one by one, and the results are the same.
#include <mpi.h>

#include <atomic>
#include <cstdlib>

#include "fixture.hpp"

namespace {

// Floats of a tensor that can be told from other messages by its size, but is small enough to be
// packed and to be reduced as a whole.
constexpr std::int64_t kCount = 1237;
std::atomic<int> tensors_alone = 0;

}  // namespace

// MPI's profiling interface: kolo's messages pass here.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (count == kCount * static_cast<int>(sizeof(float))) ++tensors_alone;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;

// The parameter: whether groups are packed.
class GroupFusion : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    setenv("KOLO_DISABLE_GROUP_FUSION", GetParam() ? "0" : "1", 1);
    setenv("KOLO_SHARED_MEMORY", "0", 1);  // messages can be seen
    init();
  }
  void TearDown() override {
    shutdown();
    unsetenv("KOLO_DISABLE_GROUP_FUSION");
    unsetenv("KOLO_SHARED_MEMORY");
  }
};

std::vector<at::Tensor> group_of(int r) {
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 8; ++i) tensors.push_back(at::full({kCount}, static_cast<float>(10 * i + r)));
  tensors.push_back(at::full({5, 3}, r, at::kLong));
  tensors.push_back(at::full({2 * size() + 1}, r, at::kDouble));
  tensors.push_back(at::full({0, 3}, r, at::kLong));
  return tensors;
}

TEST_P(GroupFusion, TheResultsAreTheSame) {
  const std::vector<at::Tensor> mine = group_of(rank());
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto sums = grouped_allreduce(mine, AllreduceOptions("r").op(ReduceOp::Sum));
    const auto sent = grouped_broadcast(mine, size() - 1, "b");
    const auto rows = grouped_allgather(mine, "g");
    const auto shares = grouped_reducescatter(mine, AllreduceOptions("s").op(ReduceOp::Sum));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      at::Tensor sum = at::zeros_like(mine[i]);
      std::vector<at::Tensor> all;
      for (int r = 0; r < size(); ++r) {
        all.push_back(group_of(r)[i]);
        sum += all.back();
      }
      EXPECT_TRUE(sums[i].equal(sum)) << i;
      EXPECT_TRUE(sent[i].equal(all.back())) << i;
      EXPECT_TRUE(rows[i].equal(at::cat(all))) << i;
      EXPECT_TRUE(shares[i].equal(at::tensor_split(sum, size())[static_cast<std::size_t>(rank())]))
          << i;
    }
  }
}

// Weights that are tied, and rows that overlap, are reduced once.
TEST_P(GroupFusion, TensorsThatShareMemory) {
  for (const std::int64_t rows : {8, 400000}) {
    const at::Tensor all = at::full({rows}, rank() + 1.0);
    const at::Tensor apart = at::full({rows / 2, 2}, rank() + 1.0);
    grouped_allreduce_({all, all, all.narrow(0, rows / 4, rows / 2), all.view({2, rows / 2}),
                        all.view({rows / 2, 2}).t(), apart.narrow(1, 0, 1), apart.narrow(1, 1, 1)},
                       ReduceOp::Sum);
    const double sum = size() * (size() + 1) / 2.0;
    EXPECT_TRUE(all.equal(at::full({rows}, sum))) << all;
    EXPECT_TRUE(apart.equal(at::full({rows / 2, 2}, sum))) << apart;
  }
}

TEST_P(GroupFusion, IsSeenInTheMessages) {
  if (size() == 1) GTEST_SKIP() << "one rank sends nothing";
  const bool fused = GetParam();
  tensors_alone = 0;
  grouped_allreduce(group_of(rank()), "r");
  barrier();  // a send may end after its operation
  EXPECT_EQ(tensors_alone == 0, fused) << tensors_alone;
  tensors_alone = 0;
  grouped_broadcast(group_of(rank()), 0, "b");
  barrier();
  const int sent = allreduce(at::full({1}, tensors_alone.load()), ReduceOp::Sum).item<int>();
  EXPECT_EQ(sent == 0, fused) << sent;
}

TEST_P(GroupFusion, OneWrongTensorFailsAll) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  std::vector<at::Tensor> tensors = group_of(1);
  if (rank() == size() - 1) tensors[6] = at::ones({kCount + 1});
  EXPECT_THAT(message_of<MismatchError>([&] { grouped_allreduce_(tensors, "r"); }),
              HasSubstr("shape of tensor 6: [1237] on rank"));
  const std::vector<at::Tensor> before = group_of(1);
  for (const std::size_t i : {0, 1, 5, 7, 8})
    EXPECT_TRUE(tensors[i].equal(before[i])) << "tensor " << i << " was reduced";
  EXPECT_TRUE(grouped_allreduce(before, "r")[6].equal(before[6])) << "the next one works";
}

INSTANTIATE_TEST_SUITE_P(OnAndOff, GroupFusion, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "On" : "Off"; });

}  // namespace
}  // namespace kolo
