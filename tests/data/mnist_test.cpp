// The MNIST dataset on small files made here: right ones, and every way in which they can be wrong.
#include "kolo/data/mnist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/map.h>
#include <torch/data/samplers/sequential.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>

#include <algorithm>

#include "data/idx_bytes.hpp"
#include "kolo/data/dataset.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

using test::Bytes;
using test::gzip;
using test::idx_header;
using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using test::operator+;
using test::write;
using testing_support::TemporaryFolder;

constexpr std::uint8_t kUint8 = 0x08;
constexpr auto kImages = "train-images-idx3-ubyte";
constexpr auto kLabels = "train-labels-idx1-ubyte";

// Pixel j of image i is i + j modulo 256.
Bytes make_images(std::uint32_t count, std::uint32_t side = 28) {
  Bytes bytes = idx_header(kUint8, {count, side, side});
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t j = 0; j < side * side; ++j)
      bytes.push_back(static_cast<std::uint8_t>(i + j));
  }
  return bytes;
}

Bytes make_labels(const Bytes& labels) {
  return idx_header(kUint8, {static_cast<std::uint32_t>(labels.size())}) + labels;
}

class MnistFiles : public ::testing::Test {
 protected:
  // What the training set's two files give: the message of its DataError.
  std::string error_of(const Bytes& images, const Bytes& labels) const {
    write(folder_, kImages, images);
    write(folder_, kLabels, labels);
    return message_of<DataError>([&] { MNIST dataset(folder_.path()); });
  }

  const TemporaryFolder folder_;
};

TEST_F(MnistFiles, TrainAndTest) {
  write(folder_, kImages, make_images(3));
  write(folder_, kLabels, make_labels({9, 0, 4}));
  write(folder_, "t10k-images-idx3-ubyte.gz", gzip(make_images(2)));
  write(folder_, "t10k-labels-idx1-ubyte.gz", gzip(make_labels({1, 2})));
  const MNIST train(folder_.path());
  EXPECT_TRUE(train.is_train());
  EXPECT_EQ(train.size(), 3U);
  EXPECT_EQ(train.images().sizes(), (std::vector<std::int64_t>{3, 1, 28, 28}));
  EXPECT_EQ(train.images().scalar_type(), torch::kFloat32);
  EXPECT_TRUE(train.labels().equal(torch::tensor({9, 0, 4}, torch::kInt64)));
  const MNIST test(folder_.path(), MNIST::Mode::kTest);
  EXPECT_FALSE(test.is_train());
  EXPECT_EQ(test.size(), 2U);
  EXPECT_TRUE(test.labels().equal(torch::tensor({1, 2}, torch::kInt64)));
  EXPECT_TRUE(test.images().equal(train.images().slice(0, 0, 2)));
}

TEST_F(MnistFiles, PixelsAreFromZeroToOne) {
  write(folder_, kImages, make_images(2));
  write(folder_, kLabels, make_labels({1, 2}));
  const MNIST dataset(folder_.path());
  const torch::Tensor expected =
      torch::arange(784).add(1).remainder(256).to(torch::kFloat32).div(255).view({1, 28, 28});
  EXPECT_TRUE(dataset.images()[1].equal(expected));
  EXPECT_EQ(dataset.images().min().item<float>(), 0.0F);
  EXPECT_EQ(dataset.images().max().item<float>(), 1.0F);
}

TEST_F(MnistFiles, GetGivesImageAndLabel) {
  write(folder_, kImages, make_images(2));
  write(folder_, kLabels, make_labels({1, 2}));
  MNIST dataset(folder_.path());
  const auto example = dataset.get(1);
  EXPECT_TRUE(example.data.equal(dataset.images()[1]));
  EXPECT_EQ(example.target.dim(), 0);
  EXPECT_EQ(example.target.item<std::int64_t>(), 2);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { dataset.get(2); }), HasSubstr("index 2 of 2"));
}

TEST_F(MnistFiles, BatchesAreStackedImagesAndLabels) {
  write(folder_, kImages, make_images(3));
  write(folder_, kLabels, make_labels({1, 2, 3}));
  const MNIST mnist(folder_.path());
  for (const Batch& batch : {mnist.get_stacked_batch({2, 0}), Dataset(mnist).get_batch({2, 0})}) {
    EXPECT_TRUE(batch.data.equal(torch::stack({mnist.images()[2], mnist.images()[0]})));
    EXPECT_TRUE(batch.target.equal(torch::tensor({3, 1}, torch::kInt64)));
  }
  EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                mnist.get_stacked_batch({0, 3});
              }),
              HasSubstr("index 3 of 3"));
}

// A class that makes its samples in another way than the one that it inherits from.
class Sevens : public MNIST {
 public:
  using MNIST::MNIST;
  torch::data::Example<> get(std::size_t index) override {
    return {MNIST::get(index).data, torch::tensor(7)};
  }
};

TEST_F(MnistFiles, AClassOfOnesOwnMakesItsSamplesByItself) {
  write(folder_, kImages, make_images(3));
  write(folder_, kLabels, make_labels({1, 2, 3}));
  const Batch batch = Dataset(Sevens(folder_.path())).get_batch({2, 0});
  EXPECT_TRUE(batch.target.equal(torch::tensor({7, 7}, torch::kInt64))) << batch.target;
}

TEST_F(MnistFiles, WithTransformsInADataLoader) {
  write(folder_, kImages, make_images(5));
  write(folder_, kLabels, make_labels({0, 1, 2, 3, 4}));
  auto dataset = MNIST(folder_.path())
                     .map(torch::data::transforms::Normalize<>(0.5, 0.25))
                     .map(torch::data::transforms::Stack<>());
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(dataset), torch::data::DataLoaderOptions(2).workers(1));
  std::int64_t seen = 0;
  for (const auto& batch : *loader) {
    const std::int64_t count = std::min<std::int64_t>(2, 5 - seen);
    EXPECT_EQ(batch.data.sizes(), (std::vector<std::int64_t>{count, 1, 28, 28}));
    EXPECT_EQ(batch.data.min().item<float>(), -2.0F);
    EXPECT_EQ(batch.target[0].item<std::int64_t>(), seen);
    seen += count;
  }
  EXPECT_EQ(seen, 5);
}

TEST_F(MnistFiles, ThePlainFileIsPreferred) {
  write(folder_, kImages, make_images(1));
  write(folder_, std::string(kImages) + ".gz", {1, 2, 3});
  write(folder_, kLabels, make_labels({7}));
  EXPECT_EQ(MNIST(folder_.path()).size(), 1U);
}

TEST_F(MnistFiles, MissingFile) {
  write(folder_, kImages, make_images(1));
  EXPECT_THAT(
      message_of<DataError>([&] { MNIST dataset(folder_.path()); }),
      AllOf(HasSubstr(folder_ / kLabels), HasSubstr("nor with .gz"), HasSubstr("scripts/setup"),
            HasSubstr("5,000"), HasSubstr("scripts/fetch-mnist")));
  EXPECT_THAT(message_of<DataError>([&] { MNIST dataset(folder_.path(), MNIST::Mode::kTest); }),
              HasSubstr("t10k-images-idx3-ubyte"));
  EXPECT_THAT(message_of<DataError>([&] { MNIST dataset(folder_ / "none"); }),
              HasSubstr("not even its folder"));
}

TEST_F(MnistFiles, DamagedFile) {
  EXPECT_THAT(error_of({}, make_labels({1})),
              AllOf(HasSubstr(folder_ / kImages), HasSubstr("is empty")));
  EXPECT_THAT(error_of(make_images(1), gzip(make_labels({1})) + Bytes{'x'}),
              AllOf(HasSubstr(folder_ / kLabels), HasSubstr("gzip")));
}

TEST_F(MnistFiles, ImagesOfAnotherKind) {
  const Bytes labels = make_labels({1});
  EXPECT_THAT(error_of(labels, labels), HasSubstr("holds uint8 [1] instead of images"));
  EXPECT_THAT(error_of(make_images(1, 27), labels), HasSubstr("holds uint8 [1, 27, 27] instead"));
  EXPECT_THAT(error_of(make_images(0), make_labels({})),
              HasSubstr("holds uint8 [0, 28, 28] instead"));
  EXPECT_THAT(error_of(idx_header(0x0B, {1, 28, 28}) + Bytes(1568, 0), labels),
              AllOf(HasSubstr(folder_ / kImages), HasSubstr("holds int16 [1, 28, 28] instead")));
}

TEST_F(MnistFiles, LabelsOfAnotherKind) {
  EXPECT_THAT(
      error_of(make_images(1), make_images(1)),
      AllOf(HasSubstr(folder_ / kLabels), HasSubstr("holds uint8 [1, 28, 28] instead of labels")));
  EXPECT_THAT(error_of(make_images(1), idx_header(0x0D, {1}) + Bytes(4, 0)),
              HasSubstr("holds float32 [1] instead of labels"));
}

TEST_F(MnistFiles, LabelOutOfRange) {
  EXPECT_THAT(
      error_of(make_images(3), make_labels({0, 9, 10})),
      AllOf(HasSubstr(folder_ / kLabels), HasSubstr("label 2 is 10, not a digit from 0 to 9")));
  EXPECT_THAT(error_of(make_images(1), make_labels({255})), HasSubstr("label 0 is 255"));
}

TEST_F(MnistFiles, OtherNumberOfLabels) {
  EXPECT_THAT(error_of(make_images(3), make_labels({1, 2})),
              AllOf(HasSubstr(folder_ / kLabels), HasSubstr("holds 2 labels for the 3 images of "),
                    HasSubstr(folder_ / kImages)));
}

}  // namespace
}  // namespace kolo::data
