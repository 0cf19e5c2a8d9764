// Batches of tensors travel as bytes.
#include "delivery/tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "kolo/error.h"

namespace kolo::delivery {
namespace {

using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DeliveryTensors, ComeBackAsTheyWere) {
  for (const at::ScalarType dtype : {at::kFloat, at::kByte, at::kLong, at::kHalf, at::kBool}) {
    const at::Tensor data = torch::randint(0, 2, {4, 3, 5}).to(dtype);
    const at::Tensor target = torch::arange(4);
    const data::Batch back = to_batch(to_parcel({data, target}));
    EXPECT_EQ(back.data.scalar_type(), dtype);
    EXPECT_TRUE(at::equal(back.data, data)) << dtype;
    EXPECT_TRUE(at::equal(back.target, target));
  }
}

TEST(DeliveryTensors, ViewsComeAsTheirOwnElements) {
  const at::Tensor base = torch::arange(24).reshape({2, 3, 4});
  const at::Tensor view = base.permute({2, 0, 1}).slice(0, 1, 3);
  const data::Batch back = to_batch(to_parcel({view, {}}));
  EXPECT_TRUE(at::equal(back.data, view));
  EXPECT_TRUE(back.data.is_contiguous());
  EXPECT_FALSE(back.target.defined()) << "there was none";
  const at::Tensor conjugated = torch::view_as_complex(torch::randn({3, 2})).conj();
  EXPECT_TRUE(at::equal(to_batch(to_parcel({conjugated, {}})).data, conjugated));
}

TEST(DeliveryTensors, EmptyOnesKeepTheirShape) {
  const data::Batch back = to_batch(to_parcel({torch::empty({3, 0, 2}), torch::empty({0})}));
  EXPECT_EQ(back.data.sizes(), (at::IntArrayRef{3, 0, 2}));
  EXPECT_EQ(back.target.numel(), 0);
}

TEST(DeliveryTensors, OwnTheMemory) {
  data::Batch back;
  {
    const Parcel parcel = to_parcel({torch::full({1000}, 7.0), {}});
    back = to_batch(parcel);
  }
  back.data.add_(1);
  EXPECT_EQ(back.data.sum().item<double>(), 8000);
}

TEST(DeliveryTensors, WhatCannotTravel) {
  EXPECT_THAT(message_of([] { to_parcel({}); }), HasSubstr("without data"));
  EXPECT_THAT(message_of([] {
                to_parcel({torch::eye(3).to_sparse(), {}});
              }),
              HasSubstr("the data of a batch is not dense"));
  EXPECT_THAT(message_of([] {
                to_parcel({torch::ones(1), torch::eye(2).to_sparse()});
              }),
              HasSubstr("the target of a batch"));
  const at::Tensor quantized = at::quantize_per_tensor(torch::ones(4), 0.1, 0, at::kQInt8);
  EXPECT_THAT(message_of([&] { to_parcel({quantized, {}}); }), HasSubstr("is not dense"));
  EXPECT_THAT(message_of([] { to_batch({}); }), HasSubstr("0 arrays"));
}

}  // namespace
}  // namespace kolo::delivery
