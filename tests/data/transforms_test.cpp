// Transforms of batches: values by hand, and random ones by what they may do.
#include "kolo/data/transforms.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "kolo/error.h"

namespace kolo::data {
namespace {

// 200 images [2, 5, 4] of different numbers, none of them 0.
const at::Tensor& images() {
  static const at::Tensor tensor = torch::arange(1, 200 * 40 + 1, at::kFloat).view({200, 2, 5, 4});
  return tensor;
}

at::Tensor transformed(const Transform& transform, std::uint64_t epoch = 0) {
  std::vector<std::size_t> indices(200);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  const at::Tensor before = images().clone();
  Batch batch{images(), {}};
  transform(batch, BatchInfo(1, 0, epoch, indices));
  EXPECT_TRUE(at::equal(images(), before)) << "the dataset's own tensor was written to";
  return batch.data;
}

TEST(Transforms, DtypeAndScale) {
  Batch batch{torch::tensor({0, 51, 255}, at::kByte), {}};
  to_dtype(at::kFloat, 1.0 / 255)(batch, BatchInfo(0, 0, 0, {}));
  EXPECT_EQ(batch.data.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(batch.data, torch::tensor({0.0, 0.2, 1.0}, at::kFloat)));
}

TEST(Transforms, NormalizeByChannel) {
  const at::Tensor got = transformed(normalize({1, 20}, {2, 4}));
  EXPECT_TRUE(at::allclose(got.select(1, 0), (images().select(1, 0) - 1) / 2));
  EXPECT_TRUE(at::allclose(got.select(1, 1), (images().select(1, 1) - 20) / 4));
  EXPECT_EQ(got.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(transformed(normalize({3}, {2})), (images() - 3) / 2));
  EXPECT_THROW(normalize({1, 2}, {1}), InvalidArgumentError);
  EXPECT_THROW(normalize({1}, {0}), InvalidArgumentError);
  EXPECT_THROW(transformed(normalize({1, 2, 3}, {1, 1, 1})), InvalidArgumentError);
}

TEST(Transforms, CropsAreAllPlacesOfThePaddedImage) {
  const at::Tensor padded = at::constant_pad_nd(images(), {1, 1, 1, 1});
  const at::Tensor got = transformed(random_crop(5, 4, 1));
  ASSERT_EQ(got.sizes(), images().sizes());
  std::set<std::pair<int, int>> places;
  for (std::int64_t i = 0; i < got.size(0); ++i) {
    bool found = false;
    for (int row = 0; row < 3 && !found; ++row) {
      for (int column = 0; column < 3 && !found; ++column) {
        found = at::equal(got[i], padded[i].narrow(1, row, 5).narrow(2, column, 4));
        if (found) places.insert({row, column});
      }
    }
    ASSERT_TRUE(found) << "image " << i;
  }
  EXPECT_EQ(places.size(), 9U);  // of 200 images
  EXPECT_EQ(transformed(random_crop(2, 3)).size(3), 3);
  EXPECT_THROW(random_crop(0, 3), InvalidArgumentError);
  EXPECT_THROW(transformed(random_crop(6, 4)), InvalidArgumentError);
}

TEST(Transforms, FlipsMirrorSomeImages) {
  const at::Tensor got = transformed(random_flip(0.3));
  int flipped = 0;
  for (std::int64_t i = 0; i < got.size(0); ++i) {
    const bool is_flipped = at::equal(got[i], images()[i].flip({2}));
    ASSERT_TRUE(is_flipped || at::equal(got[i], images()[i]));
    flipped += is_flipped ? 1 : 0;
  }
  EXPECT_GT(flipped, 30);  // 60 are expected, give or take 6.5
  EXPECT_LT(flipped, 90);
  EXPECT_TRUE(at::equal(transformed(random_flip(0)), images()));
  EXPECT_TRUE(at::equal(transformed(random_flip(1)), images().flip({3})));
  EXPECT_FALSE(at::equal(transformed(random_flip(0.3), 1), got)) << "another epoch, other flips";
  EXPECT_THROW(random_flip(1.5), InvalidArgumentError);
}

TEST(Transforms, CutoutClearsASquare) {
  const at::Tensor got = transformed(cutout(2));
  std::set<std::int64_t> areas;
  for (std::int64_t i = 0; i < got.size(0); ++i) {
    const at::Tensor cut = got[i].eq(0);
    EXPECT_TRUE(at::equal(cut[0], cut[1])) << "the same square in each channel";
    EXPECT_TRUE(at::equal(got[i].masked_select(~cut), images()[i].masked_select(~cut)));
    areas.insert(cut[0].sum().item<std::int64_t>());
  }
  EXPECT_EQ(areas, (std::set<std::int64_t>{1, 2, 4}));  // in a corner, at an edge, inside
  EXPECT_THROW(cutout(0), InvalidArgumentError);
}

TEST(Transforms, ImagesHaveThreeDimensions) {
  Batch batch{torch::ones({3, 4}), {}};
  const std::vector<std::size_t> indices = {0, 1, 2};
  const BatchInfo info(0, 0, 0, indices);
  EXPECT_THROW(random_flip()(batch, info), InvalidArgumentError);
  EXPECT_THROW(random_crop(1, 1)(batch, info), InvalidArgumentError);
  EXPECT_THROW(cutout(1)(batch, info), InvalidArgumentError);
}

TEST(Random, StreamsAreEvenAndTheirOwn) {
  std::vector<int> counts(7, 0);
  double sum = 0;
  for (std::uint64_t sample = 0; sample < 7000; ++sample) {
    Random random(1, 2, 3, sample);
    ++counts[random.below(7)];
    sum += random.uniform();
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);  // 5 standard deviations
  EXPECT_NEAR(sum / 7000, 0.5, 0.02);
  EXPECT_EQ(Random(1, 2, 3, 4)(), Random(1, 2, 3, 4)());
  std::set<std::uint64_t> firsts;
  for (std::uint64_t i = 0; i < 16; ++i)
    firsts.insert(Random(i & 1U, i >> 1U & 1U, i >> 2U & 1U, i >> 3U & 1U)());
  EXPECT_EQ(firsts.size(), 16U);
}

}  // namespace
}  // namespace kolo::data
