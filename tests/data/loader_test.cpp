// kolo::DataLoader: the same batches whatever the workers, errors with their sample, and threads
// that end.
#include "kolo/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "kolo/error.h"

namespace kolo {
namespace {

using data::Batch;
using data::BatchInfo;
using ::testing::HasSubstr;

constexpr std::size_t kSize = 53;

// Sample i is the number i, and its target is -i.
data::Dataset numbers(std::size_t size = kSize) {
  const at::Tensor samples = torch::arange(static_cast<std::int64_t>(size));
  return {samples, -samples};
}

DistributedSampler sampler(std::size_t size = kSize, bool shuffle = true) {
  DistributedSampler::Options options;
  options.shuffle = shuffle;
  options.seed = 3;
  return {size, options};
}

// All batches of an epoch.
std::vector<at::Tensor> epoch_of(DataLoader& loader) {
  std::vector<at::Tensor> batches;
  for (const Batch& batch : loader) {
    EXPECT_TRUE(at::equal(batch.target, -batch.data.to(at::kLong)));
    batches.push_back(batch.data);
  }
  return batches;
}

void expect_same(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(at::equal(left[i], right[i])) << i;
}

TEST(DataLoader, BatchesAreTheSamplersWhateverTheWorkers) {
  DistributedSampler expected = sampler();
  std::vector<std::vector<at::Tensor>> epochs(3);
  for (auto& epoch : epochs) {
    expected.reset();
    while (const auto indices = expected.next(8)) {
      const std::vector<std::int64_t> rows(indices->begin(), indices->end());
      epoch.push_back(torch::tensor(rows));
    }
  }
  for (const int workers : {0, 1, 2, 5}) {
    DataLoader loader(numbers(), sampler(), DataLoaderOptions().batch_size(8).workers(workers));
    EXPECT_EQ(loader.size(), 7U);
    for (const auto& epoch : epochs) expect_same(epoch_of(loader), epoch);
  }
}

TEST(DataLoader, LastBatchThatIsNotFullMayBeLeftOut) {
  for (const int workers : {0, 2}) {
    DataLoader loader(numbers(), sampler(),
                      DataLoaderOptions().batch_size(8).workers(workers).drop_last(true));
    EXPECT_EQ(loader.size(), 6U);
    for (int epoch = 0; epoch < 2; ++epoch) {
      const auto batches = epoch_of(loader);
      ASSERT_EQ(batches.size(), 6U);
      for (const at::Tensor& batch : batches) EXPECT_EQ(batch.size(0), 8);
    }
  }
  DataLoader none(numbers(5), sampler(5), DataLoaderOptions().batch_size(8).drop_last(true));
  EXPECT_TRUE(epoch_of(none).empty());
}

TEST(DataLoader, UnorderedGivesEachBatchOnceAndWaitsForNoSlowOne) {
  // The first sample is there when the program has got another batch.
  std::atomic<bool> has_another{false};
  data::Dataset slow(kSize, [&](std::size_t i) -> Batch {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (i == 0 && !has_another && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {torch::tensor(static_cast<std::int64_t>(i)),
            torch::tensor(-static_cast<std::int64_t>(i))};
  });
  DataLoader loader(slow, sampler(kSize, false),
                    DataLoaderOptions().batch_size(4).workers(3).ordered(false));
  std::multiset<std::int64_t> seen;
  for (const Batch& batch : loader) {
    for (std::int64_t i = 0; i < batch.data.size(0); ++i)
      seen.insert(batch.data[i].item<std::int64_t>());
    EXPECT_TRUE(has_another || seen.count(0) == 0) << "batches came in their order";
    has_another = true;
  }
  EXPECT_EQ(seen.size(), kSize);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), kSize);
}

TEST(DataLoader, RandomTransformsDependOnEpochAndSampleAlone) {
  // Adds two random numbers, of two transforms, to each sample.
  const auto add = [](Batch& batch, const BatchInfo& info) {
    at::Tensor noise = torch::empty({batch.data.size(0)}, at::kDouble);
    for (std::size_t i = 0; i < info.indices().size(); ++i)
      noise[static_cast<std::int64_t>(i)] = info.random(i).uniform();
    batch.data = torch::stack({batch.data.to(at::kDouble), noise}, 1);
  };
  // By sample: what it got in epoch 0 and 1.
  const auto run = [&](int workers, std::int64_t batch_size, int ranks) {
    std::vector<std::array<double, 2>> got(kSize);
    for (int rank = 0; rank < ranks; ++rank) {
      DistributedSampler::Options options;
      options.num_replicas = ranks;
      options.rank = rank;
      DataLoader loader(numbers(), DistributedSampler(kSize, options),
                        DataLoaderOptions().batch_size(batch_size).workers(workers).seed(9));
      loader.transform(add);
      for (const std::size_t epoch : {0, 1}) {
        for (const Batch& batch : loader) {
          for (std::int64_t i = 0; i < batch.data.size(0); ++i)
            got[static_cast<std::size_t>(batch.data[i][0].item<double>())][epoch] =
                batch.data[i][1].item<double>();
        }
      }
    }
    return got;
  };
  const auto expected = run(0, 8, 1);
  EXPECT_EQ(run(2, 8, 1), expected);
  EXPECT_EQ(run(3, 5, 1), expected);
  EXPECT_EQ(run(2, 4, 3), expected);
  std::set<double> different;
  for (const auto& pair : expected) different.insert(pair.begin(), pair.end());
  EXPECT_EQ(different.size(), 2 * kSize);
}

TEST(DataLoader, TransformsOfALoaderHaveRandomNumbersOfTheirOwn) {
  std::vector<double> first;
  std::vector<double> second;
  DataLoader loader(numbers(), sampler(), DataLoaderOptions().batch_size(8));
  loader
      .transform([&](Batch&, const BatchInfo& info) { first.push_back(info.random(0).uniform()); })
      .transform(
          [&](Batch&, const BatchInfo& info) { second.push_back(info.random(0).uniform()); });
  epoch_of(loader);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_NE(first[i], second[i]);
}

// The position counts the batches that the program has got, though workers are ahead of it. Samples
// that drop_last leaves out are counted with the last batch.
TEST(DataLoader, GoesOnBetweenAnyTwoBatches) {
  for (const bool drop_last : {false, true}) {
    const auto options = DataLoaderOptions().batch_size(8).drop_last(drop_last);
    DataLoader whole(numbers(), sampler(), options);
    epoch_of(whole);
    const std::vector<at::Tensor> second = epoch_of(whole);
    const std::vector<at::Tensor> third = epoch_of(whole);
    for (const int workers : {0, 3}) {
      const auto with_workers = DataLoaderOptions(options).workers(workers);
      for (std::size_t done = 1; done <= second.size(); ++done) {
        DistributedSampler broken = sampler();
        broken.set_epoch(1);
        DataLoader loader(numbers(), broken, with_workers);
        std::size_t got = 0;
        for (auto at = loader.begin(); at != loader.end() && got + 1 < done; ++at) ++got;
        EXPECT_EQ(loader.sampler().position(), done == second.size() ? kSize : done * 8);
        torch::serialize::OutputArchive saved;
        broken.save(saved);
        std::stringstream bytes;
        saved.save_to(bytes);

        DistributedSampler restored = sampler();
        torch::serialize::InputArchive archive;
        archive.load_from(bytes);
        restored.load(archive);
        DataLoader resumed(numbers(), restored, with_workers);
        if (done < second.size()) {
          expect_same(epoch_of(resumed),
                      {second.begin() + static_cast<std::ptrdiff_t>(done), second.end()});
        }
        expect_same(epoch_of(resumed), third);
      }
    }
  }
}

// 896 of 1,000 samples were used. Each of two ranks has 52 more, which are no batch of 64.
TEST(DataLoader, ARestThatFillsNoBatchEndsTheEpoch) {
  DistributedSampler before(1000, {1, 0});
  before.next(896);
  torch::serialize::OutputArchive saved;
  before.save(saved);
  std::stringstream bytes;
  saved.save_to(bytes);
  for (const int workers : {0, 2}) {
    DistributedSampler after(1000, {2, 0});
    torch::serialize::InputArchive archive;
    bytes.seekg(0);
    archive.load_from(bytes);
    after.load(archive);
    DataLoader loader(numbers(1000), after,
                      DataLoaderOptions().batch_size(64).workers(workers).drop_last(true));
    EXPECT_TRUE(epoch_of(loader).empty());
    EXPECT_EQ(loader.sampler().epoch(), 0U);
    EXPECT_EQ(loader.sampler().position(), 500U);
    EXPECT_EQ(epoch_of(loader).size(), 7U);
    EXPECT_EQ(loader.sampler().epoch(), 1U);
  }
}

struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(DataLoader, ErrorNamesTheSampleAndComesInItsTurn) {
  for (const int workers : {0, 1, 4}) {
    data::Dataset broken(kSize, [](std::size_t i) -> Batch {
      if (i == 21) throw OwnError("the file is away");
      return {torch::tensor(static_cast<std::int64_t>(i)), {}};
    });
    DataLoader loader(broken, sampler(kSize, false),
                      DataLoaderOptions().batch_size(4).workers(workers));
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::size_t batches = 0;
      try {
        for (const Batch& batch : loader) batches += batch.data.defined() ? 1 : 0;
        ADD_FAILURE() << "no error";
      } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr("sample 21 of epoch " + std::to_string(epoch) +
                                            " cannot be loaded: the file is away"));
        EXPECT_THROW(std::rethrow_if_nested(error), OwnError);
      }
      EXPECT_EQ(batches, 5U);  // samples 0 to 19
    }
  }
}

TEST(DataLoader, ErrorOfATransformNamesTheBatch) {
  DataLoader loader(numbers(6), sampler(6, false), DataLoaderOptions().batch_size(3).workers(2));
  loader.transform([](Batch&, const BatchInfo& info) {
    if (info.indices()[0] == 3) throw OwnError("too dark");
  });
  auto at = loader.begin();
  try {
    ++at;
    ADD_FAILURE() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the batch of samples 3 4 5 of epoch 0 cannot be loaded"));
  }
  EXPECT_TRUE(at == loader.end());
}

TEST(DataLoader, WorkersStayWithinTheirDistance) {
  std::atomic<int> loaded{0};
  data::Dataset counted(400, [&](std::size_t i) -> Batch {
    ++loaded;
    return {torch::tensor(static_cast<std::int64_t>(i)), {}};
  });
  DataLoader loader(counted, sampler(400, false),
                    DataLoaderOptions().batch_size(2).workers(2).prefetch(3));
  int taken = 0;
  for (auto at = loader.begin(); at != loader.end(); ++at) {
    ++taken;
    if (taken % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_LE(loaded, 2 * (taken + 2 * 3));
  }
  EXPECT_EQ(loaded, 400);
}

std::size_t threads_of_process() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

// A thread that was joined may be in the list for a moment longer.
bool has_threads(std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads_of_process() != count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(DataLoader, ThreadsEndWithTheLoader) {
  torch::ones({4}).sum();
  const std::size_t before = threads_of_process();
  for (int round = 0; round < 50; ++round) {
    DataLoader loader(numbers(), sampler(), DataLoaderOptions().batch_size(2).workers(4));
    auto at = loader.begin();
    if (round % 2 == 0) ++at;
    if (round % 5 == 0) {
      auto again = loader.begin();  // begins the next epoch in the middle of this one
      EXPECT_TRUE(again != loader.end());
      EXPECT_TRUE(has_threads(before + 4)) << threads_of_process();
    }
  }
  EXPECT_TRUE(has_threads(before)) << threads_of_process();
}

TEST(DataLoader, WorkersAreTheSameInAllEpochs) {
  std::mutex mutex;
  std::set<pid_t> threads;
  data::Dataset noted(kSize, [&](std::size_t i) -> Batch {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(::gettid());
    return {torch::tensor(static_cast<std::int64_t>(i)), {}};
  });
  DataLoader loader(noted, sampler(), DataLoaderOptions().batch_size(2).workers(2));
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (const Batch& batch : loader) {
      if (epoch == 2) break;  // the batches that are left are not loaded
      EXPECT_LE(batch.data.size(0), 2);
    }
  }
  EXPECT_LE(threads.size(), 2U);
  EXPECT_EQ(threads.count(::gettid()), 0U);
}

// Batches of the epoch before, loaded or being loaded when it was left, must not come again.
TEST(DataLoader, AnEpochThatWasLeftLeavesNoBatches) {
  for (const bool is_slow : {false, true}) {
    data::Dataset slow(kSize, [is_slow](std::size_t i) -> Batch {
      if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return {torch::tensor(static_cast<std::int64_t>(i)),
              torch::tensor(-static_cast<std::int64_t>(i))};
    });
    DataLoader loader(slow, sampler(), DataLoaderOptions().batch_size(4).workers(3));
    DistributedSampler expected = sampler();
    for (int epoch = 0; epoch < 20; ++epoch) {
      expected.reset();
      int left = 1 + epoch % 5;
      for (const Batch& batch : loader) {
        const auto indices = expected.next(4);
        const std::vector<std::int64_t> rows(indices->begin(), indices->end());
        ASSERT_TRUE(at::equal(batch.data, torch::tensor(rows))) << "epoch " << epoch;
        // Others are loaded meanwhile, or are being loaded.
        if (!is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (--left == 0) break;
      }
    }
  }
}

TEST(DataLoader, TransformAddedBetweenEpochsIsAppliedFromTheNextOneOn) {
  const auto add_thousand = [](Batch& batch, const BatchInfo& /*info*/) {
    batch.data = batch.data + 1000;
  };
  for (const int workers : {0, 2}) {
    DataLoader loader(numbers(8), sampler(8, false),
                      DataLoaderOptions().batch_size(4).workers(workers));
    const auto first_sample = [&] { return (*loader.begin()).data[0].item<std::int64_t>(); };
    EXPECT_EQ(first_sample(), 0);
    loader.transform(add_thousand);
    EXPECT_EQ(first_sample(), 1000);
    loader.transform(add_thousand);
    EXPECT_EQ(first_sample(), 2000);
  }
}

TEST(DataLoader, OptionsThatCannotBeAreRefused) {
  const auto make = [](const DataLoaderOptions& options) {
    DataLoader(numbers(), sampler(), options);
  };
  EXPECT_THROW(make(DataLoaderOptions().batch_size(0)), InvalidArgumentError);
  EXPECT_THROW(make(DataLoaderOptions().workers(-1)), InvalidArgumentError);
  EXPECT_THROW(make(DataLoaderOptions().prefetch(0)), InvalidArgumentError);
  EXPECT_THROW(DataLoader(numbers(), sampler(kSize + 1)), InvalidArgumentError);
  EXPECT_THROW(DataLoader(numbers(), sampler()).transform(nullptr), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo
