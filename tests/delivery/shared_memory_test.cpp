// Samples that are in memory once a node.
#include "kolo/data/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <fstream>
#include <string>

namespace kolo::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SharedMemory : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { kolo::init(); }
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

// The files behind this process's mappings of shared samples.
std::string mapped_files() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::string files;
  while (std::getline(maps, line)) {
    std::string range, access, offset, device, inode, path;
    std::istringstream(line) >> range >> access >> offset >> device >> inode >> path;
    if (path.find("kolo-samples") != std::string::npos) files += inode + " ";
  }
  return files;
}

Dataset numbers(std::int64_t size) {
  return {torch::arange(6 * size, torch::kInt).reshape({size, 2, 3}), torch::arange(size) * 10};
}

TEST_F(SharedMemory, HasAllSamples) {
  int made = 0;
  SharedMemoryDataset dataset([&] {
    ++made;
    return numbers(200);
  });
  EXPECT_EQ(made, local_rank() == 0 ? 1 : 0);
  EXPECT_EQ(dataset.size(), 200U);
  const std::vector<std::size_t> chosen = {199, 0, 64, 64};
  const Batch batch = dataset.get_batch(chosen);
  const Batch right = numbers(200).get_batch(chosen);
  EXPECT_TRUE(at::equal(batch.data, right.data));
  EXPECT_TRUE(at::equal(batch.target, right.target));
  EXPECT_EQ(batch.data.scalar_type(), at::kInt);
  EXPECT_THROW(dataset.get_batch(200), InvalidArgumentError);
  DataLoader loader(dataset, DistributedSampler(200, {size(), rank()}),
                    DataLoaderOptions().batch_size(8).workers(2));
  std::int64_t sum = 0;
  for (const auto& one : loader) sum += one.target.sum().item<std::int64_t>();
  if (size() == 1) {
    EXPECT_EQ(sum, 10 * 199 * 100);
  }
}

// All ranks map one and the same file.
TEST_F(SharedMemory, IsThereOnce) {
  SharedMemoryDataset dataset([] { return numbers(100); });
  const std::vector<std::string> files = allgather_object(mapped_files());
  EXPECT_NE(files[0], "");
  for (const std::string& file : files) EXPECT_EQ(file, files[0]);
  allreduce(torch::ones(1), "before");
  if (rank() == size() - 1) dataset.all().data.fill_(7);
  allreduce(torch::ones(1), "after");
  EXPECT_EQ(dataset.get_batch(5).data.sum().item<std::int64_t>(), 42);
  allreduce(torch::ones(1), "end");
}

TEST_F(SharedMemory, OutlivesCopiesAndIsFreed) {
  {
    std::optional<SharedMemoryDataset> first(std::in_place, [] { return numbers(10); });
    SharedMemoryDataset second = *first;
    first.reset();
    EXPECT_EQ(second.get_batch(9).target.item<std::int64_t>(), 90);
  }
  EXPECT_EQ(mapped_files(), "");
}

TEST_F(SharedMemory, SamplesWithoutTargets) {
  SharedMemoryDataset dataset([] {
    return Dataset(70, [](std::size_t i) {
      return Batch(torch::tensor(static_cast<double>(i)), at::Tensor());
    });
  });
  const Batch batch = dataset.get_batch(std::vector<std::size_t>{69, 3});
  EXPECT_EQ(batch.data.sum().item<double>(), 72);
  EXPECT_FALSE(batch.target.defined());
}

TEST_F(SharedMemory, ErrorsComeOnAllRanks) {
  EXPECT_EQ(message_of([] {
              SharedMemoryDataset([]() -> Dataset { throw std::runtime_error("no disk"); });
            }),
            "SharedMemoryDataset: rank 0: no disk");
  EXPECT_EQ(message_of([] { SharedMemoryDataset([] { return Dataset(); }); }),
            "SharedMemoryDataset: rank 0: the dataset has no samples");
  const auto uneven = [] {
    return Dataset(
        100, [](std::size_t i) { return Batch(torch::zeros({i < 64 ? 2 : 3}), torch::tensor(0)); });
  };
  EXPECT_THAT(message_of([&] { SharedMemoryDataset{uneven}; }),
              HasSubstr("a sample from number 64 on has another shape or dtype"));
  // One element that stands for 2^50.
  const auto huge = [] {
    return Dataset(torch::zeros({1}).expand({std::int64_t{1} << 40, 1024}),
                   torch::zeros({1}).expand({std::int64_t{1} << 40}));
  };
  EXPECT_THAT(message_of([&] { SharedMemoryDataset{huge}; }),
              AllOf(HasSubstr("MiB of memory"), HasSubstr("MiB left")));
  allreduce(torch::ones(1), "still well");
}

}  // namespace
}  // namespace kolo::data
