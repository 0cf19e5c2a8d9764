// Samples in tables of text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/data/csv.h>
#include <kolo/data/loader.h>
#include <torch/torch.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "kolo/error.h"
#include "temporary_folder.hpp"

namespace kolo::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::TemporaryFolder;

constexpr auto kText = "size,rooms,price\n50,2,100.5\n70,3,150\n90,4,199\n";

TEST(CSVDataset, HasSamplesAndTargets) {
  const TemporaryFolder folder;
  std::ofstream(folder / "plain.csv") << kText;
  const gzFile packed = gzopen((folder / "packed.csv.gz").c_str(), "wb");
  gzputs(packed, kText);
  gzclose(packed);
  for (const char* name : {"plain.csv", "packed.csv.gz"}) {
    CSVDataset homes(folder / name, CSVDatasetOptions().target("price"));
    EXPECT_EQ(homes.size(), 3U);
    EXPECT_THAT(homes.columns(), ElementsAre("size", "rooms"));
    const auto batch = homes.get_batch({2, 0});
    EXPECT_TRUE(batch.data.equal(torch::tensor({{90.0F, 4.0F}, {50.0F, 2.0F}})));
    EXPECT_TRUE(batch.target.equal(torch::tensor({199.0F, 100.5F})));
  }
}

TEST(CSVDataset, WholeTargetsAreClasses) {
  const TemporaryFolder folder;
  std::ofstream(folder / "t.csv") << kText;
  CSVDataset rooms(folder / "t.csv", CSVDatasetOptions().target("rooms"));
  EXPECT_THAT(rooms.columns(), ElementsAre("size", "price"));
  EXPECT_TRUE(rooms.get_batch({0, 1, 2}).target.equal(torch::tensor({2, 3, 4})));

  CSVDataset all(folder / "t.csv");
  EXPECT_EQ(all.get_batch({1}).data.sizes(), (at::IntArrayRef{1, 3}));
  EXPECT_FALSE(all.get_batch({1}).target.defined());
}

TEST(CSVDataset, FeedsALoader) {
  const TemporaryFolder folder;
  std::ofstream file(folder / "t.csv");
  for (int i = 0; i < 100; ++i) file << i << "," << i % 3 << "\n";
  file.close();
  const CSVDataset numbers(folder / "t.csv", CSVDatasetOptions().target("1"));
  DataLoader loader(numbers, DistributedSampler(100, {}),
                    DataLoaderOptions().batch_size(8).workers(2));
  double sum = 0;
  for (const Batch& batch : loader) {
    EXPECT_TRUE(batch.target.equal(batch.data.select(1, 0).to(at::kLong).remainder(3)));
    sum += batch.data.sum().item<double>();
  }
  EXPECT_EQ(sum, 4950);
}

TEST(CSVDataset, RefusesWhatItCannotRead) {
  const TemporaryFolder folder;
  std::ofstream(folder / "t.csv") << kText;
  const auto refusal = [&](const char* name, const char* target) -> std::string {
    try {
      CSVDataset(folder / name, CSVDatasetOptions().target(target));
    } catch (const DataError& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_THAT(refusal("t.csv", "colour"), HasSubstr("it has 'size', 'rooms', 'price'"));
  EXPECT_THAT(refusal("none.csv", ""), HasSubstr("none.csv"));
  std::ofstream(folder / "large.csv") << "1,2\n1e39,2\n";
  EXPECT_THAT(refusal("large.csv", ""), HasSubstr("too large for float32"));
  std::ofstream(folder / "target.csv") << "size,price\n1,1.5\n2,1e39\n";
  EXPECT_THAT(refusal("target.csv", "price"), HasSubstr("too large for float32"));
  CSVDataset homes(folder / "t.csv");
  EXPECT_THROW(homes.get_batch({3}), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::data
