// allgather, alltoall, reducescatter and groups.
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Gather = WithKolo;
using Group = WithKolo;

constexpr at::ScalarType kDtypes[] = {at::kByte, at::kChar,     at::kShort, at::kInt,    at::kLong,
                                      at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kBool};

// A tensor of `dims` dimensions with so many rows, that tells its rank.
at::Tensor of_rank(int r, std::int64_t rows, int dims, at::ScalarType dtype) {
  std::vector<std::int64_t> shape(dims, 3);
  shape[0] = rows;
  return at::full(shape, r % 2 + 1, at::kLong).to(dtype);
}

TEST_F(Gather, AllgatherEveryDtypeAndDimension) {
  for (const at::ScalarType dtype : kDtypes) {
    for (int dims = 1; dims <= 3; ++dims) {
      const auto rows = [](int r) { return r * 2; };  // none on rank 0
      const at::Tensor input = of_rank(rank(), rows(rank()), dims, dtype);
      const at::Tensor result = allgather(input);
      std::vector<at::Tensor> parts;
      for (int r = 0; r < size(); ++r) parts.push_back(of_rank(r, rows(r), dims, dtype));
      ASSERT_TRUE(result.equal(at::cat(parts))) << dtype << " " << dims;
      EXPECT_EQ(result.scalar_type(), dtype);
    }
  }
}

TEST_F(Gather, AllgatherTakesStridesAndForgetsNoName) {
  for (int repeat = 0; repeat < 4; ++repeat) {  // the same name, other sizes
    const at::Tensor input =
        at::arange(12, at::kFloat).reshape({3, 4}).t().narrow(0, 0, (rank() + repeat) % 4);
    Handle handle = allgather_async(input, "again");
    std::int64_t rows = 0;
    for (int r = 0; r < size(); ++r) rows += (r + repeat) % 4;
    const at::Tensor result = handle.wait();
    ASSERT_EQ(result.sizes(), (std::vector<std::int64_t>{rows, 3}));
    std::int64_t begin = 0;
    for (int r = 0; r < rank(); ++r) begin += (r + repeat) % 4;
    EXPECT_TRUE(result.narrow(0, begin, input.size(0)).equal(input));
  }
}

TEST_F(Gather, NegativeViews) {
  const at::Tensor values = at::arange(size() * 2.0) + rank();
  const at::Tensor view = at::_neg_view(values.clone());
  EXPECT_TRUE(allgather(view).equal(allgather(-values)));
  EXPECT_TRUE(alltoall(view).output.equal(alltoall(-values).output));
  EXPECT_TRUE(reducescatter(view).equal(reducescatter(-values)));
  EXPECT_TRUE(allreduce(view).equal(allreduce(-values)));
  at::Tensor inout = at::_neg_view(values.clone());
  allreduce_(inout, AllreduceOptions("negative").op(ReduceOp::Max));
  EXPECT_TRUE(inout.equal(-at::arange(size() * 2.0)));
  inout = at::_neg_view(values.clone());
  broadcast_(inout, 0);
  EXPECT_TRUE(inout.equal(-at::arange(size() * 2.0)));
}

TEST_F(Gather, AllgatherErrors) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { allgather(at::scalar_tensor(1.0), "scalar"); }),
              HasSubstr("no dimension 0"));
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  EXPECT_THAT(message_of<MismatchError>([] {
                allgather(at::zeros({2, rank() == 0 ? 3 : 4}), "shape");
              }),
              HasSubstr("shape: [*, 3] on rank 0; [*, 4] on rank"));
  EXPECT_THAT(message_of<MismatchError>(
                  [] { allgather(at::zeros({2}, rank() == 0 ? at::kInt : at::kLong), "type"); }),
              HasSubstr("dtype: int32 on rank 0; int64 on rank"));
  EXPECT_THAT(message_of<MismatchError>(
                  [] { rank() == 0 ? allgather(at::zeros({2})) : allreduce(at::zeros({2})); }),
              HasSubstr("operation: allgather on rank 0; allreduce on rank"));
  EXPECT_EQ(allgather(at::zeros({2}), "shape").size(0), 2 * size()) << "the next one works";
}

TEST_F(Gather, AlltoallEveryDtypeAndDimension) {
  for (const at::ScalarType dtype : kDtypes) {
    for (int dims = 1; dims <= 3; ++dims) {
      // Rank r gives rank p p + 1 rows.
      std::vector<std::int64_t> splits;
      std::int64_t rows = 0;
      for (int p = 0; p < size(); ++p) {
        splits.push_back(p + 1);
        rows += p + 1;
      }
      const at::Tensor input = of_rank(rank(), rows, dims, dtype);
      const AlltoallResult result = alltoall(input, splits);
      std::vector<at::Tensor> parts;
      for (int r = 0; r < size(); ++r) parts.push_back(of_rank(r, rank() + 1, dims, dtype));
      ASSERT_TRUE(result.output.equal(at::cat(parts))) << dtype << " " << dims;
      EXPECT_EQ(result.received_splits, std::vector<std::int64_t>(size(), rank() + 1));
    }
  }
}

TEST_F(Gather, AlltoallEqualSplitsAndNothing) {
  const at::Tensor input = at::arange(2 * size()) + 100 * rank();
  const AlltoallResult result = alltoall(input);
  for (int r = 0; r < size(); ++r) {
    EXPECT_TRUE(
        result.output.narrow(0, 2 * r, 2).equal(at::arange(2 * rank(), 2 * rank() + 2) + 100 * r));
  }
  EXPECT_EQ(alltoall(at::zeros({0, 5})).output.sizes(), (std::vector<std::int64_t>{0, 5}));
  AlltoallHandle handle = alltoall_async(input, {}, "async");
  EXPECT_TRUE(handle.wait().output.equal(result.output));
}

TEST_F(Gather, AlltoallErrors) {
  const at::Tensor rows = at::zeros({2 * size() + 1});
  if (size() > 1) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { alltoall(rows, {}, "a"); }),
                HasSubstr("cannot be split evenly"));
  }
  const auto message = [&](const std::vector<std::int64_t>& splits) {
    return message_of<InvalidArgumentError>([&] { alltoall(rows, splits, "a"); });
  };
  EXPECT_THAT(message(std::vector<std::int64_t>(size() + 1, 1)), HasSubstr("ranks"));
  EXPECT_THAT(message(std::vector<std::int64_t>(size(), 1)), HasSubstr("rows over"));
  EXPECT_THAT(message(std::vector<std::int64_t>(size(), 9)), HasSubstr("do not share out"));
  EXPECT_THAT(message(std::vector<std::int64_t>(size(), -1)), HasSubstr("do not share out"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] { alltoall(at::scalar_tensor(1), {}, "a"); }),
              HasSubstr("no dimension 0"));
  if (size() == 1) return;
  EXPECT_THAT(message_of<MismatchError>([] {
                alltoall(at::zeros({size(), rank() == 0 ? 3 : 4}), {}, "a");
              }),
              HasSubstr("shape: [*, 3] on rank 0"));
  EXPECT_EQ(alltoall(at::ones({size()}), {}, "a").output.size(0), size());
}

TEST_F(Gather, ReducescatterEveryDtypeAndDimension) {
  for (const at::ScalarType dtype : kDtypes) {
    if (dtype == at::kBool) continue;
    for (int dims = 1; dims <= 3; ++dims) {
      for (const std::int64_t rows : {0, 1, 5, 12}) {
        const at::Tensor one = of_rank(0, rows, dims, dtype);
        const at::Tensor input = one * (rank() + 1);
        const at::Tensor result = reducescatter(input, ReduceOp::Sum);
        std::int64_t mine = rows / size() + (rank() < rows % size() ? 1 : 0);
        ASSERT_TRUE(result.equal(one.narrow(0, 0, mine) * (size() * (size() + 1) / 2)))
            << dtype << " " << dims << " " << rows;
        EXPECT_TRUE(input.equal(one * (rank() + 1))) << "not changed";
      }
    }
  }
}

TEST_F(Gather, ReducescatterGivesEachRankItsRows) {
  const std::int64_t rows = 2 * size() + 1;
  const at::Tensor input = at::arange(rows, at::kDouble).unsqueeze(1).repeat({1, 2});
  for (int repeat = 0; repeat < 3; ++repeat) {  // cached: the same name again
    const at::Tensor result =
        reducescatter(input, ReducescatterOptions("rows").prescale_factor(2).postscale_factor(3));
    const std::int64_t begin = 2 * rank() + (rank() == 0 ? 0 : 1);
    EXPECT_TRUE(result.allclose(input.narrow(0, begin, rank() == 0 ? 3 : 2) * 6));
  }
  EXPECT_TRUE(reducescatter(input, ReduceOp::Max).equal(reducescatter(input, ReduceOp::Min)));
}

TEST_F(Gather, ReducescatterErrors) {
  EXPECT_THAT(
      message_of<InvalidArgumentError>([] { reducescatter(at::scalar_tensor(1.0), "scalar"); }),
      HasSubstr("cannot be scattered"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] {
                reducescatter(at::ones({4}), ReducescatterOptions("adasum").op(ReduceOp::Adasum));
              }),
              HasSubstr("has no Adasum"));
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  EXPECT_THAT(
      message_of<MismatchError>([] { reducescatter(at::ones({rank() == 0 ? 4 : 5}), "rows"); }),
      HasSubstr("shape: [4] on rank 0; [5] on rank"));
  EXPECT_THAT(message_of<MismatchError>([] {
                reducescatter(at::ones({4}), ReducescatterOptions("rows").op(
                                                 rank() == 0 ? ReduceOp::Sum : ReduceOp::Max));
              }),
              HasSubstr("reduce operator: Sum on rank 0; Max on rank"));
}

TEST_F(Group, AllreduceOfManyDtypes) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<at::Tensor> inputs;
    for (const at::ScalarType dtype : {at::kFloat, at::kLong, at::kDouble, at::kHalf}) {
      inputs.push_back(at::full({5}, rank() + 1, dtype));
      inputs.push_back(at::full({200, 300}, rank() + 1, dtype));  // too large to be fused
      inputs.push_back(at::full({0, 3}, rank() + 1, dtype));
    }
    const std::int64_t sum = size() * (size() + 1) / 2;
    const auto results = grouped_allreduce(inputs, AllreduceOptions("many").op(ReduceOp::Sum));
    ASSERT_EQ(results.size(), inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(results[i].equal(at::full_like(inputs[i], sum)));
      EXPECT_TRUE(inputs[i].equal(at::full_like(inputs[i], rank() + 1))) << "not changed";
    }
  }
}

TEST_F(Group, InPlaceKeepsStrides) {
  std::vector<at::Tensor> tensors = {at::ones({2, 3, 4, 5}).to(at::MemoryFormat::ChannelsLast),
                                     at::ones({4, 6}).t()};
  const auto strides = tensors[0].strides().vec();
  const void* data = tensors[0].data_ptr();
  const auto results = grouped_allreduce_(tensors, ReduceOp::Sum);
  EXPECT_EQ(results[0].data_ptr(), data);
  EXPECT_EQ(tensors[0].strides().vec(), strides);
  for (const at::Tensor& t : tensors) EXPECT_TRUE(t.equal(at::full_like(t, size())));
}

TEST_F(Group, OneWrongTensorFailsAll) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { grouped_allreduce({}, "none"); }),
              HasSubstr("no tensors"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] {
                grouped_allreduce({at::ones({2}), at::zeros({2}, at::kComplexHalf)}, "bad");
              }),
              HasSubstr("tensor 1 of"));
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const std::vector<at::Tensor> tensors = {at::ones({2}), at::ones({rank() == 0 ? 3 : 4})};
  EXPECT_THAT(message_of<MismatchError>([&] { grouped_allreduce_(tensors, "group"); }),
              HasSubstr("shape of tensor 1: [3] on rank 0; [4] on rank"));
  EXPECT_TRUE(tensors[0].equal(at::ones({2})));
  EXPECT_THAT(message_of<MismatchError>([&] {
                grouped_allreduce(rank() == 0 ? tensors : std::vector<at::Tensor>{tensors[0]},
                                  "group");
              }),
              HasSubstr("number of tensors: 2 on rank 0; 1 on rank"));
  EXPECT_TRUE(grouped_allreduce({at::ones({2})}, "group")[0].equal(at::ones({2})));
}

TEST_F(Group, BroadcastAllgatherAndReducescatter) {
  const std::vector<at::Tensor> inputs = {at::full({3}, rank(), at::kLong),
                                          at::full({40000}, rank(), at::kFloat),
                                          at::full({2, 2}, rank() == 1, at::kBool)};
  const int root = size() - 1;
  const auto broadcasts = grouped_broadcast(inputs, root, "b");
  EXPECT_TRUE(broadcasts[0].equal(at::full({3}, root, at::kLong)));
  EXPECT_TRUE(broadcasts[1].equal(at::full({40000}, root, at::kFloat)));
  EXPECT_TRUE(broadcasts[2].equal(at::full({2, 2}, root == 1, at::kBool)));
  GroupHandle handle = grouped_allgather_async(inputs, "g");
  const auto gathered = handle.wait();
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(gathered[0][3 * r].item<int>(), r);
    EXPECT_EQ(gathered[1][40000 * r + 39999].item<float>(), static_cast<float>(r));
    EXPECT_EQ(gathered[2][2 * r + 1][1].item<bool>(), r == 1);
  }
  const auto scattered = grouped_reducescatter({at::ones({size(), 2}), at::ones({size()})});
  EXPECT_TRUE(scattered[0].equal(at::ones({1, 2})));
  EXPECT_TRUE(scattered[1].equal(at::ones({1})));
}

// A rank is late, so that the first of the name is in flight on the others until all have tried.
TEST_F(Group, ANameInFlightIsRefused) {
  if (size() == 1) GTEST_SKIP() << "alone, an operation ends before a second one can come";
  for (const int late : {0, size() - 1}) {
    if (rank() == late) barrier("all have tried");
    GroupHandle first = grouped_allreduce_async({at::ones({2}), at::ones({3})}, "twice");
    if (rank() != late) {
      EXPECT_THAT(
          message_of<DuplicateNameError>([] { (void)allreduce_async(at::ones({2}), "twice"); }),
          HasSubstr("'twice'"));
      barrier("all have tried");
    }
    EXPECT_TRUE(first.wait()[1].equal(at::ones({3})));
    EXPECT_TRUE(allreduce(at::ones({2}), "twice").equal(at::ones({2}))) << "it is free again";
  }
}

}  // namespace
}  // namespace kolo
