// Which batches a loader prepares.
#include "delivery/preparation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "delivery/parcels.hpp"

namespace kolo::delivery {
namespace {

using Found = Preparation::Found;
using ::testing::ElementsAre;

// Rank r has the samples r, r + ranks, ... of `samples`; in epoch e each is 1000 e more.
BatchPlan plan(std::size_t samples, std::uint32_t ranks, std::size_t batch_size) {
  return {"train", batch_size, false, [=](std::uint32_t rank, std::uint64_t epoch) {
            std::vector<std::size_t> share;
            for (std::size_t i = rank; i < samples; i += ranks) share.push_back(1000 * epoch + i);
            return share;
          }};
}

struct Waiting {
  Spool spool{1 << 20, ""};
  Preparation preparation;

  // Prepares as much as it may: the ranks and positions, in order.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> fill() {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> all;
    while (const auto planned = preparation.next()) {
      all.emplace_back(planned->rank, planned->request.position);
      EXPECT_FALSE(preparation.put(*planned, spool.keep(test::parcel_of("x"))));
    }
    return all;
  }
};

Waiting waiting(const Preparation::Options& options, const BatchPlan& plan) {
  return {Spool{1 << 20, ""}, Preparation(options, {plan})};
}

TEST(Preparation, TakesBatchesInTheOrderOfTheRanks) {
  Waiting one = waiting({0, 1, 2, 6}, plan(20, 2, 2));
  EXPECT_THAT(one.fill(), ElementsAre(std::pair(0U, 0U), std::pair(1U, 0U), std::pair(0U, 2U)));
}

// Together the loaders prepare the first batches of all ranks, each once.
TEST(Preparation, LoadersShareTheBatches) {
  for (const std::size_t loaders : {1U, 2U, 3U, 5U}) {
    std::set<std::pair<std::uint32_t, std::uint64_t>> all;
    for (std::size_t loader = 0; loader < loaders; ++loader) {
      Waiting one = waiting({loader, loaders, 2, 60}, plan(60, 2, 2));
      for (const auto& batch : one.fill()) {
        EXPECT_TRUE(all.insert(batch).second) << batch.first << " " << batch.second;
        EXPECT_EQ(home_of(batch.second / 2, batch.first, loaders), loader);
      }
    }
    EXPECT_EQ(all.size(), 30U) << loaders << " loaders";
  }
}

TEST(Preparation, GivesWhatItHasAndRefills) {
  Waiting one = waiting({0, 1, 1, 4}, plan(10, 1, 2));
  one.fill();
  EXPECT_EQ(one.preparation.ask(0, {"train", 0, 2, {2, 3}}, 1).found, Found::kNow);
  EXPECT_EQ(one.preparation.ask(0, {"train", 0, 2, {2, 3}}, 2).found, Found::kNot) << "taken";
  EXPECT_EQ(one.preparation.ask(0, {"train", 0, 0, {0, 7}}, 3).found, Found::kNot)
      << "other samples";
  EXPECT_EQ(one.preparation.ask(0, {"valid", 0, 0, {0, 1}}, 4).found, Found::kNot);
  EXPECT_EQ(one.preparation.ask(5, {"train", 0, 0, {0, 1}}, 5).found, Found::kNot)
      << "no such rank";
  EXPECT_THAT(one.fill(), ElementsAre(std::pair(0U, 4U)));
}

TEST(Preparation, GoesOnInTheNextEpoch) {
  Waiting one = waiting({0, 1, 1, 6}, plan(5, 1, 2));
  EXPECT_THAT(one.fill(), ElementsAre(std::pair(0U, 0U), std::pair(0U, 2U), std::pair(0U, 4U),
                                      std::pair(0U, 0U)));
  EXPECT_EQ(one.preparation.ask(0, {"train", 1, 0, {1000, 1001}}, 1).found, Found::kNow);
}

TEST(Preparation, LeavesOutWhatDropLastLeavesOut) {
  BatchPlan dropping = plan(5, 1, 2);
  dropping.drop_last = true;
  Waiting one = waiting({0, 1, 1, 6}, dropping);
  EXPECT_THAT(one.fill(), ElementsAre(std::pair(0U, 0U), std::pair(0U, 2U), std::pair(0U, 0U)));
}

TEST(Preparation, ABatchThatIsBeingLoadedIsPromised) {
  Waiting one = waiting({0, 1, 1, 4}, plan(10, 1, 2));
  const auto first = one.preparation.next();
  const auto second = one.preparation.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(one.preparation.ask(0, first->request, 17).found, Found::kSoon);
  EXPECT_EQ(one.preparation.ask(0, first->request, 18).found, Found::kNot) << "promised to 17";
  EXPECT_EQ(one.preparation.ask(0, second->request, 19).found, Found::kSoon);
  const auto unneeded = one.preparation.put(*first, one.spool.keep(test::parcel_of("x")));
  ASSERT_TRUE(unneeded);
  EXPECT_EQ(unneeded->wanted_as, 17U);
  EXPECT_EQ(one.preparation.give_up(*second), 19U);
  EXPECT_THAT(one.fill(), ElementsAre(std::pair(0U, 4U), std::pair(0U, 6U)));
}

// A resumed run begins in another epoch, in the middle of it and of its batches.
TEST(Preparation, FollowsARankThatIsElsewhere) {
  Waiting one = waiting({0, 1, 1, 4}, plan(10, 1, 2));
  one.fill();
  EXPECT_EQ(one.preparation.ask(0, {"train", 7, 3, {7003, 7004}}, 1).found, Found::kNot);
  EXPECT_THAT(one.fill(), ElementsAre(std::pair(0U, 5U), std::pair(0U, 7U)));
  EXPECT_EQ(one.preparation.ask(0, {"train", 7, 5, {7005, 7006}}, 2).found, Found::kNow);
  EXPECT_EQ(one.preparation.ask(0, {"train", 0, 0, {0, 1}}, 3).found, Found::kNot);
  EXPECT_THAT(one.fill(), ElementsAre(std::pair(0U, 2U), std::pair(0U, 4U))) << "and back";
}

TEST(Preparation, DropsWhatNobodyWants) {
  Waiting one = waiting({0, 1, 1, 4}, plan(10, 1, 2));
  const auto loading = one.preparation.next();
  one.fill();
  one.preparation.withdraw("train");
  EXPECT_TRUE(one.preparation.put(*loading, one.spool.keep(test::parcel_of("x"))));
  EXPECT_TRUE(one.fill().empty());
  one.preparation.ask(0, {"train", 0, 4, {4, 5}}, 1);
  EXPECT_THAT(one.fill(), ElementsAre(std::pair(0U, 6U), std::pair(0U, 8U))) << "wanted again";
}

TEST(Preparation, NoSamplesAndNoUnits) {
  EXPECT_TRUE(waiting({0, 1, 1, 0}, plan(10, 1, 2)).fill().empty());
  EXPECT_TRUE(waiting({1, 2, 3, 10}, plan(0, 3, 2)).fill().empty());
  // The batch of a share that has only one is at home elsewhere in every epoch.
  EXPECT_TRUE(waiting({1, 2, 1, 10}, plan(2, 1, 2)).fill().empty());
}

}  // namespace
}  // namespace kolo::delivery
