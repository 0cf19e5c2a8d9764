#include "collectives/local/transport.hpp"

#include <gmock/gmock.h>

#include "collectives/subset/transport.hpp"
#include "contract.hpp"

namespace kolo {
namespace {

// Runs the program of a rank on every rank of a new group.
void on_all_ranks(int size, const contract::Case& program) {
  std::vector<std::unique_ptr<Transport>> transports = make_local_transports(size);
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&program, &transport] { program(*transport); });
  }
  for (std::thread& thread : threads) thread.join();
}

class LocalContract : public testing::TestWithParam<std::pair<std::string, contract::Case>> {};

TEST_P(LocalContract, Holds) {
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9}) on_all_ranks(size, GetParam().second);
}

// Some ranks of a larger group, in another order.
class SubsetContract : public LocalContract {};

TEST_P(SubsetContract, Holds) {
  for (const int size : {1, 2, 3, 4, 5}) {
    std::vector<int> ranks;
    for (int rank = size - 1; rank >= 0; --rank) ranks.push_back(2 * rank + 1);
    on_all_ranks(2 * size, [&](Transport& parent) {
      if (parent.rank() % 2 == 0) return;
      const auto subset = make_subset_transport(parent, ranks, 5);
      EXPECT_EQ(subset->rank(), size - 1 - parent.rank() / 2);
      GetParam().second(*subset);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, SubsetContract, testing::ValuesIn(contract::cases()),
                         contract::CaseName());
INSTANTIATE_TEST_SUITE_P(All, LocalContract, testing::ValuesIn(contract::cases()),
                         contract::CaseName());

TEST(LocalTransport, ALostPeerFailsWhatIsUnderWayWithIt) {
  auto transports = make_local_transports(2);
  std::vector<float> data(100000, 1.0F);
  const auto work =
      make_ring_allreduce(*transports[0], 10, data.data(), data.size(), Reduction{}, 4096);
  ASSERT_TRUE(work->start().is_ok());
  Status status;
  EXPECT_EQ(work->step(status), Progress::kAdvanced);  // sends were started
  EXPECT_EQ(work->step(status), Progress::kWaiting);
  kill_local_rank(*transports[0], 1);
  EXPECT_EQ(work->step(status), Progress::kFailed);
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_THAT(status.message(), testing::HasSubstr("rank 1"));
}

TEST(LocalTransport, OneRankNeedsNoMessages) {
  auto transports = make_local_transports(1);
  std::vector<std::int32_t> data = {6, 7};
  Reduction reduction;
  reduction.dtype = DType::kInt32;
  reduction.postscale = 2;
  for (contract::MakeAllreduce* make : contract::kAllreduces) {
    const auto work = make(*transports[0], 10, data.data(), data.size(), reduction, 1024);
    ASSERT_TRUE(contract::run(*work).is_ok());
  }
  EXPECT_EQ(data, (std::vector<std::int32_t>{96, 112}));
}

}  // namespace
}  // namespace kolo
