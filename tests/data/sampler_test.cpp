// kolo::DistributedSampler by itself, in a data loader, and saved and loaded.
#include "kolo/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/base.h>
#include <torch/data/samplers/serialize.h>
#include <torch/serialize.h>

#include <algorithm>
#include <sstream>

#include "data/shard.hpp"
#include "kolo/error.h"

namespace kolo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Indices = std::vector<std::size_t>;
using Options = DistributedSampler::Options;

// Its examples are their own indices.
class Numbers : public torch::data::datasets::BatchDataset<Numbers, Indices> {
 public:
  explicit Numbers(std::size_t size) : size_(size) {}
  Indices get_batch(torch::ArrayRef<std::size_t> request) override { return request.vec(); }
  std::optional<std::size_t> size() const override { return size_; }

 private:
  std::size_t size_;
};

Indices rest_of_epoch(DistributedSampler& sampler, std::size_t batch_size = 3) {
  Indices all;
  while (auto batch = sampler.next(batch_size)) all.insert(all.end(), batch->begin(), batch->end());
  return all;
}

template <typename Loader>
Indices epoch_of(Loader& loader) {
  Indices all;
  for (const Indices& batch : *loader) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

// Returns a rank's share of three, of samples that are shuffled with seed 5.
Indices share(std::size_t dataset_size, std::size_t rank, std::uint64_t epoch) {
  return data::share_of(data::permutation(dataset_size, 5, epoch), {3, rank, false});
}

// Of 20 samples, for rank 1.
Indices expected(std::uint64_t epoch) {
  return share(20, 1, epoch);
}
DistributedSampler make_sampler() {
  return {20, {3, 1, true, 5}};
}

std::string saved(const DistributedSampler& sampler) {
  std::ostringstream stream;
  torch::save(sampler, stream);
  return stream.str();
}

void load(DistributedSampler& sampler, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::load(sampler, stream);
}

TEST(DistributedSampler, BatchesOfAnEpoch) {
  DistributedSampler sampler(10, {4, 2, false});
  EXPECT_EQ(sampler.size(), 3U);
  EXPECT_THAT(*sampler.next(2), ElementsAre(2, 6));
  EXPECT_EQ(sampler.position(), 2U);
  EXPECT_THAT(*sampler.next(2), ElementsAre(0));
  EXPECT_FALSE(sampler.next(2).has_value());
  EXPECT_FALSE(sampler.next(2).has_value());
}

TEST(DistributedSampler, WrongArguments) {
  for (const Options& options : {Options{0, 0}, Options{-1, 0}, Options{2, 2}, Options{2, -1}}) {
    EXPECT_THROW(DistributedSampler(10, options), InvalidArgumentError);
  }
  EXPECT_THROW(make_sampler().next(0), InvalidArgumentError);
}

TEST(DistributedSampler, FirstResetKeepsEpochZero) {
  DistributedSampler sampler = make_sampler();
  sampler.reset();
  sampler.reset();
  EXPECT_EQ(sampler.epoch(), 0U);
  EXPECT_EQ(rest_of_epoch(sampler), expected(0));
}

TEST(DistributedSampler, ResetAfterAnEpochGoesOn) {
  DistributedSampler sampler = make_sampler();
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    sampler.reset();
    EXPECT_EQ(sampler.epoch(), epoch);
    EXPECT_EQ(rest_of_epoch(sampler), expected(epoch));
  }
}

TEST(DistributedSampler, ResetWithinAnEpochGoesOn) {
  DistributedSampler sampler = make_sampler();
  sampler.next(2);
  sampler.reset();
  EXPECT_EQ(sampler.epoch(), 1U);
  EXPECT_EQ(rest_of_epoch(sampler), expected(1));
}

TEST(DistributedSampler, ResetKeepsTheEpochThatWasSet) {
  DistributedSampler sampler = make_sampler();
  rest_of_epoch(sampler);
  sampler.set_epoch(7);
  sampler.reset();
  EXPECT_EQ(rest_of_epoch(sampler), expected(7));
  sampler.set_epoch(7);  // again, on purpose
  sampler.reset();
  EXPECT_EQ(rest_of_epoch(sampler), expected(7));
  sampler.reset();
  EXPECT_EQ(rest_of_epoch(sampler), expected(8));
}

TEST(DistributedSampler, SetEpochBeginsAtOnce) {
  DistributedSampler sampler = make_sampler();
  sampler.next(2);
  sampler.set_epoch(3);
  EXPECT_EQ(rest_of_epoch(sampler), expected(3));
}

TEST(DistributedSampler, ResetToAnotherSize) {
  DistributedSampler sampler = make_sampler();
  sampler.next(2);
  sampler.reset(31);
  EXPECT_EQ(sampler.size(), 11U);
  EXPECT_EQ(rest_of_epoch(sampler), share(31, 1, 1));
}

TEST(DistributedSampler, EmptyShares) {
  DistributedSampler none(0, {3, 1});
  EXPECT_EQ(none.size(), 0U);
  EXPECT_FALSE(none.next(1).has_value());
  DistributedSampler dropped(2, {3, 1, true, 0, true});
  EXPECT_EQ(dropped.size(), 0U);
  EXPECT_FALSE(dropped.next(1).has_value());
}

TEST(DistributedSampler, InADataLoader) {
  for (const std::size_t workers : {0, 2}) {
    std::vector<Indices> shares;
    for (int rank = 0; rank < 3; ++rank) {
      const auto options = torch::data::DataLoaderOptions(4).workers(workers);
      const DistributedSampler sampler(21, {3, rank, true, 5});
      auto loader = torch::data::make_data_loader(Numbers(21), sampler, options);
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        const auto wanted = share(21, static_cast<std::size_t>(rank), epoch);
        EXPECT_EQ(epoch_of(loader), wanted) << "rank " << rank << ", epoch " << epoch;
      }
    }
  }
}

// --- other orders ---

data::SampleOrder stratified() {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 20; ++i) labels.push_back(i % 4);
  return data::SampleOrder::stratified(labels);
}

TEST(DistributedSampler, SharesAnyOrder) {
  const data::SampleOrder weighted = data::SampleOrder::weighted({1, 2, 3, 0}, 11);
  for (const std::size_t rank : {0, 1}) {
    DistributedSampler sampler(weighted, {2, static_cast<int>(rank), true, 5});
    EXPECT_EQ(sampler.size(), 6U);
    EXPECT_EQ(sampler.dataset_size(), 4U);
    for (const std::uint64_t epoch : {0, 1}) {
      sampler.reset();
      EXPECT_EQ(rest_of_epoch(sampler),
                data::share_of(weighted.of_epoch(5, epoch), {2, rank, false}));
    }
    EXPECT_THROW(sampler.reset(5), InvalidArgumentError) << "the order is for 4 samples";
  }
}

// In mid-epoch, and then among other ranks.
TEST(DistributedSampler, AnotherOrderGoesOn) {
  DistributedSampler first(stratified(), {1, 0, true, 5});
  first.next(8);
  const std::string bytes = saved(first);
  const Indices left = rest_of_epoch(first);
  DistributedSampler again(stratified(), {1, 0, true, 5});
  load(again, bytes);
  EXPECT_EQ(rest_of_epoch(again), left);
  Indices together;
  for (std::size_t i = 0; i < 3; ++i) {
    for (const int rank : {0, 1}) {
      DistributedSampler other(stratified(), {2, rank, true, 5});
      load(other, bytes);
      const Indices rest = rest_of_epoch(other);
      ASSERT_EQ(rest.size(), 6U);
      together.push_back(rest[i]);
    }
  }
  EXPECT_TRUE(std::equal(together.begin(), together.end(), left.begin()));
}

TEST(DistributedSampler, APositionInAnotherOrderIsRefused) {
  DistributedSampler plain(20, {1, 0, true, 5});
  DistributedSampler other(stratified(), {1, 0, true, 5});
  for (const auto& [from, to] :
       {std::pair(saved(plain), &other), std::pair(saved(other), &plain)}) {
    try {
      load(*to, from);
      ADD_FAILURE() << "loaded";
    } catch (const InvalidArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("order"));
    }
  }
}

// kolo's first version knew no other orders.
TEST(DistributedSampler, AnArchiveWithoutAnOrderIsLoaded) {
  torch::serialize::OutputArchive old;
  for (const auto& [name, value] :
       {std::pair("dataset_size", 20), std::pair("shuffle", 1), std::pair("seed", 5),
        std::pair("drop_last", 0), std::pair("num_replicas", 3), std::pair("epoch", 2),
        std::pair("position", 4)}) {
    old.write(name, c10::IValue(std::int64_t{value}));
  }
  std::ostringstream stream;
  old.save_to(stream);
  DistributedSampler sampler = make_sampler();
  load(sampler, stream.str());
  EXPECT_EQ(sampler.epoch(), 2U);
  EXPECT_EQ(sampler.position(), 4U);
}

TEST(DistributedSampler, CopyReachesTheOneInTheDataLoader) {
  DistributedSampler sampler = make_sampler();
  auto loader = torch::data::make_data_loader(Numbers(20), sampler, 4);
  sampler.set_epoch(6);
  EXPECT_EQ(epoch_of(loader), expected(6));
  EXPECT_EQ(sampler.position(), 7U);
  EXPECT_EQ(epoch_of(loader), expected(7));
  EXPECT_EQ(sampler.epoch(), 7U);
}

TEST(DistributedSampler, AnUnfinishedEpochOfADataLoader) {
  DistributedSampler sampler = make_sampler();
  auto loader = torch::data::make_data_loader(Numbers(20), sampler, 2);
  for (const Indices& batch : *loader) {
    EXPECT_THAT(batch, ElementsAre(expected(0)[0], expected(0)[1]));
    break;
  }
  EXPECT_EQ(epoch_of(loader), expected(1));
}

// A run that is stopped in the middle of epoch 2 and continued by a new process, which may set the
// epoch or not, sees what is left of it and then epoch 3.
TEST(DistributedSampler, ContinuesFromASavedPosition) {
  DistributedSampler stopped = make_sampler();
  stopped.set_epoch(2);
  stopped.next(3);
  const std::string bytes = saved(stopped);
  const Indices left = rest_of_epoch(stopped);
  ASSERT_EQ(left.size(), 4U);
  for (const bool sets_epoch : {false, true}) {
    DistributedSampler sampler = make_sampler();
    auto loader = torch::data::make_data_loader(Numbers(20), sampler, 2);
    load(sampler, bytes);
    EXPECT_EQ(sampler.epoch(), 2U);
    EXPECT_EQ(sampler.position(), 3U);
    if (sets_epoch) sampler.set_epoch(2);
    EXPECT_EQ(epoch_of(loader), left);
    EXPECT_EQ(epoch_of(loader), expected(3));
  }
}

TEST(DistributedSampler, ContinuesAfterASavedEpoch) {
  DistributedSampler finished = make_sampler();
  finished.set_epoch(2);
  rest_of_epoch(finished);
  DistributedSampler sampler = make_sampler();
  load(sampler, saved(finished));
  sampler.reset();
  EXPECT_EQ(rest_of_epoch(sampler), expected(3));
}

TEST(DistributedSampler, SavesEveryBitOfTheEpoch) {
  constexpr auto kEpoch = ~std::uint64_t{0} - 1;
  DistributedSampler sampler = make_sampler();
  sampler.set_epoch(kEpoch);
  DistributedSampler loaded = make_sampler();
  load(loaded, saved(sampler));
  EXPECT_EQ(loaded.epoch(), kEpoch);
}

TEST(DistributedSampler, RefusesWhatWasSavedWithOtherSettings) {
  DistributedSampler sampler = make_sampler();
  const std::vector<std::pair<DistributedSampler, std::string>> others = {
      {{21, {3, 1, true, 5}}, "dataset_size 21"},
      {{20, {3, 1, false, 5}}, "shuffle 0"},
      {{20, {3, 1, true, 6}}, "seed 6"},
      {{20, {3, 1, true, 5, true}}, "drop_last 1"}};
  for (const auto& [other, difference] : others) {
    try {
      load(sampler, saved(other));
      ADD_FAILURE() << difference << " was accepted";
    } catch (const InvalidArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr(difference));
    }
  }
  DistributedSampler other_rank(20, {3, 2, true, 5});
  load(sampler, saved(other_rank));
}

// Saved by three ranks, loaded by another number: together they go on where the three were, and
// fewer samples than they are come twice.
TEST(DistributedSampler, LoadsAmongAnotherNumberOfRanks) {
  constexpr std::size_t kSize = 61;
  for (const std::size_t taken : {0U, 1U, 7U, 20U, 21U}) {
    DistributedSampler before(kSize, {3, 0, true, 5});
    before.set_epoch(4);
    if (taken > 0) before.next(taken);
    for (const int ranks : {1, 2, 3, 4, 7}) {
      std::vector<std::size_t> left;
      for (int rank = 0; rank < ranks; ++rank) {
        DistributedSampler after(kSize, {ranks, rank, true, 5});
        load(after, saved(before));
        EXPECT_EQ(after.epoch(), 4U);
        const auto rest = after.next(kSize);
        if (rest) left.insert(left.end(), rest->begin(), rest->end());
      }
      const std::vector<std::size_t> order = data::permutation(kSize, 5, 4);
      const std::size_t done = std::min<std::size_t>(3 * taken, kSize);
      for (std::size_t i = done; i < kSize; ++i)
        EXPECT_EQ(std::count(left.begin(), left.end(), order[i]) > 0, true)
            << "sample " << i << " of the order, " << ranks << " ranks, " << taken << " taken";
      // What is continued from the order's beginning comes twice in any run.
      EXPECT_LT(left.size(), kSize - done + 2 * static_cast<std::size_t>(ranks));
    }
  }
}

// With drop_last the rest of an epoch may be nothing for more ranks; it does not begin anew.
TEST(DistributedSampler, NothingIsLeftAmongMoreRanks) {
  DistributedSampler before(100, {3, 0, true, 5, true});
  before.set_epoch(4);
  before.next(32);
  DistributedSampler after(100, {16, 0, true, 5, true});
  load(after, saved(before));
  after.set_epoch(4);
  EXPECT_EQ(after.next(1), std::nullopt);
}

TEST(DistributedSampler, RefusesOtherArchives) {
  std::ostringstream stream;
  torch::serialize::OutputArchive archive;
  archive.write("epoch", torch::IValue("two"));
  archive.save_to(stream);
  DistributedSampler sampler = make_sampler();
  sampler.next(2);
  EXPECT_THROW(load(sampler, stream.str()), DataError);
  EXPECT_EQ(sampler.position(), 2U);
}

TEST(DistributedSampler, RefusesAPositionBehindTheEnd) {
  std::ostringstream stream;
  torch::serialize::OutputArchive archive;
  const std::vector<std::pair<const char*, std::int64_t>> numbers = {
      {"dataset_size", 20}, {"num_replicas", 3}, {"shuffle", 1}, {"seed", 5},
      {"drop_last", 0},     {"epoch", 0},        {"position", 8}};
  for (const auto& [name, number] : numbers) archive.write(name, torch::IValue(number));
  archive.save_to(stream);
  DistributedSampler sampler = make_sampler();
  EXPECT_THROW(load(sampler, stream.str()), DataError);
}

// The plain orders are the same whether the option `shuffle` or a SampleOrder asks for them.
TEST(DistributedSampler, PlainOrdersAreThoseOfTheOption) {
  const auto saved = [](const DistributedSampler& sampler) {
    std::ostringstream stream;
    torch::serialize::OutputArchive archive;
    sampler.save(archive);
    archive.save_to(stream);
    return stream.str();
  };
  DistributedSampler by_option(20, Options{1, 0, false});
  DistributedSampler by_order(data::SampleOrder::sequential(20), Options{1, 0});
  DistributedSampler shuffled(data::SampleOrder::shuffled(20), Options{1, 0, false});
  by_option.next(5);
  load(by_order, saved(by_option));
  EXPECT_EQ(by_order.rest(), by_option.rest());
  EXPECT_THROW(load(by_order, saved(shuffled)), InvalidArgumentError);
  load(shuffled, saved(DistributedSampler(20, Options{1, 0})));
  EXPECT_THROW(by_order.reset(21), InvalidArgumentError);
  by_option.reset(21);
  EXPECT_EQ(by_option.rest().back(), 20U);
}

}  // namespace
}  // namespace kolo
