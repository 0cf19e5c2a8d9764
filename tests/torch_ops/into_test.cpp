// The _into forms of gathers and reducescatters, which write into a tensor of the program.
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Into = WithKolo;

constexpr at::ScalarType kDtypes[] = {at::kByte,     at::kShort, at::kLong,         at::kHalf,
                                      at::kBFloat16, at::kFloat, at::kComplexDouble};

// The rows of rank r: r + 1 of them, or none on rank 1, with values that tell the rank.
at::Tensor rows_of_rank(int r, std::int64_t width, at::ScalarType dtype = at::kFloat) {
  const std::int64_t rows = r == 1 ? 0 : r + 1;
  return (at::arange(rows * width).reshape({rows, width}) % 7 + r).to(dtype);
}

at::Tensor rows_of_all(std::int64_t width, at::ScalarType dtype = at::kFloat) {
  std::vector<at::Tensor> parts;
  for (int r = 0; r < size(); ++r) parts.push_back(rows_of_rank(r, width, dtype));
  return at::cat(parts);
}

// Small ones travel in the room of shared memory, large ones in pieces.
TEST_F(Into, AllgatherWritesWhereItIsTold) {
  for (const at::ScalarType dtype : kDtypes) {
    for (const std::int64_t width : {1, 100, 100'000}) {
      const at::Tensor all = rows_of_all(width, dtype);
      const at::Tensor output = at::zeros_like(all);
      const void* const memory = output.data_ptr();
      const std::int64_t version = output._version();
      const at::Tensor result = allgather_into(output, rows_of_rank(rank(), width, dtype),
                                               "rows" + std::to_string(width));
      EXPECT_TRUE(result.is_same(output));
      EXPECT_EQ(output.data_ptr(), memory);
      EXPECT_GT(output._version(), version) << "autograd must notice the change";
      EXPECT_TRUE(output.equal(all)) << dtype << " " << width;
    }
  }
}

// As FSDP does it: a rank's rows lie where they belong from the start.
TEST_F(Into, AllgatherInPlace) {
  for (const std::int64_t width : {1, 100'000}) {
    const at::Tensor all = rows_of_all(width);
    const at::Tensor output = at::zeros_like(all);
    std::int64_t before = 0;
    for (int r = 0; r < rank(); ++r) before += rows_of_rank(r, 1).size(0);
    const at::Tensor mine = output.narrow(0, before, rows_of_rank(rank(), 1).size(0));
    mine.copy_(rows_of_rank(rank(), width));
    Handle handle = allgather_into_async(output, mine);
    EXPECT_TRUE(handle.wait().equal(all));
  }
}

// The last rank has a row too many. It alone gets an error, and its tensor stays as it is.
TEST_F(Into, AllgatherOfAnotherNumberOfRows) {
  const at::Tensor all = rows_of_all(3);
  const bool is_odd = rank() == size() - 1;
  const at::Tensor output = at::full({all.size(0) + (is_odd ? 1 : 0), 3}, -1.0);
  const auto gather = [&] { allgather_into(output, rows_of_rank(rank(), 3), "rows"); };
  if (is_odd) {
    EXPECT_THAT(message_of<InvalidArgumentError>(gather),
                HasSubstr("the output has " + std::to_string(all.size(0) + 1) +
                          " rows, but the ranks gave " + std::to_string(all.size(0))));
    EXPECT_TRUE(output.equal(at::full_like(output, -1.0)));
  } else {
    gather();
    EXPECT_TRUE(output.equal(all));
  }
  EXPECT_TRUE(allgather_into(at::zeros_like(all), rows_of_rank(rank(), 3), "rows").equal(all));
}

TEST_F(Into, AllgatherFromTheWrongRows) {
  const at::Tensor output = at::zeros({2 * size()});
  const at::Tensor wrong = output.narrow(0, 2 * ((rank() + 1) % size()), 2);
  if (size() == 1) {
    EXPECT_NO_THROW(allgather_into(output, wrong));
    return;
  }
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { allgather_into(output, wrong); }),
              HasSubstr("shares memory with rows of the output that are not its own"));
}

// Rank r gives rank p p + 1 rows.
TEST_F(Into, Alltoall) {
  std::vector<std::int64_t> splits;
  for (int p = 0; p < size(); ++p) splits.push_back(p + 1);
  const std::int64_t given = size() * (size() + 1) / 2;
  for (const at::ScalarType dtype : kDtypes) {
    for (const std::int64_t width : {1, 100'000}) {
      const at::Tensor mine = at::full({given, width}, rank() + 1, at::kLong).to(dtype);
      const at::Tensor output = at::zeros({size() * (rank() + 1), width}, dtype);
      const AlltoallResult result = alltoall_into(output, mine, splits, "all");
      EXPECT_TRUE(result.output.is_same(output));
      EXPECT_EQ(result.received_splits, std::vector<std::int64_t>(size(), rank() + 1));
      for (int r = 0; r < size(); ++r) {
        const at::Tensor part = output.narrow(0, r * (rank() + 1), rank() + 1);
        EXPECT_TRUE(part.equal(at::full_like(part, r + 1))) << dtype << " from rank " << r;
      }
    }
  }
  const at::Tensor small = at::full({1}, -1.0);
  AlltoallHandle handle = alltoall_into_async(small, at::zeros({2 * size()}));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { handle.wait(); }),
              HasSubstr("the output has 1 rows, but the ranks gave " + std::to_string(2 * size())));
  EXPECT_TRUE(small.equal(at::full({1}, -1.0)));
}

// Also of an average of integers, which works on a copy, and of float16 over messages.
TEST_F(Into, Reducescatter) {
  const std::int64_t rows = 2 * size() + 1;
  const std::int64_t mine = rank() == 0 ? 3 : 2;
  const std::int64_t before = rank() == 0 ? 0 : 2 * rank() + 1;
  for (const at::ScalarType dtype : kDtypes) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
      for (const std::int64_t width : {1, 100'000}) {
        const at::Tensor input =
            (at::arange(rows).unsqueeze(1).repeat({1, width}) % 5 * size()).to(dtype);
        const at::Tensor wanted =
            input.narrow(0, before, mine) * (op == ReduceOp::Sum ? size() : 1);
        const at::Tensor output = at::zeros_like(wanted);
        const at::Tensor kept = input.clone();
        Handle handle = reducescatter_into_async(output, input, op);
        const at::Tensor result = handle.wait();
        EXPECT_TRUE(result.is_same(output));
        EXPECT_TRUE(result.equal(wanted)) << dtype << " " << width;
        EXPECT_TRUE(input.equal(kept)) << "the input is only read";
      }
    }
  }
  const at::Tensor input = at::arange(rows, at::kDouble);
  const at::Tensor output = at::zeros({mine}, at::kDouble);
  reducescatter_into(output, input, ReducescatterOptions().prescale_factor(2).postscale_factor(3));
  EXPECT_TRUE(output.equal(input.narrow(0, before, mine) * 6));
  EXPECT_TRUE(input.equal(at::arange(rows, at::kDouble)));
}

// The last ranks get nothing. No rank's tensor is changed.
TEST_F(Into, ReducescatterOfFewerRowsThanRanks) {
  for (const std::int64_t rows : {0, 1}) {
    for (const double prescale : {1.0, 2.0}) {
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
        const at::Tensor input = at::full({rows, 3}, 4.0 * (rank() + 1));
        const at::Tensor kept = input.clone();
        const std::int64_t mine = rank() < rows ? 1 : 0;
        const at::Tensor output = at::zeros({mine, 3});
        const double sum = 4.0 * size() * (size() + 1) / 2 * prescale;
        const double wanted = op == ReduceOp::Sum ? sum : sum / size();
        const auto options = ReducescatterOptions(op).prescale_factor(prescale);
        EXPECT_TRUE(
            reducescatter_into(output, input, options).allclose(at::full({mine, 3}, wanted)));
        EXPECT_TRUE(reducescatter(input, options).equal(output));
        EXPECT_TRUE(input.equal(kept)) << rows << " rows, prescale " << prescale;
      }
    }
  }
}

TEST_F(Into, ReducescatterTakesViews) {
  const at::Tensor values = at::arange(4.0 * size()).reshape({2, 2 * size()});
  const at::Tensor output = at::zeros({2, 2}, at::kFloat);
  const auto wanted = [&](const at::Tensor& all) { return all.narrow(0, 2 * rank(), 2) * size(); };
  reducescatter_into(output, values.t(), ReduceOp::Sum);
  EXPECT_TRUE(output.equal(wanted(values.t())));
  reducescatter_into(output, at::_neg_view(values.t()), ReduceOp::Sum);
  EXPECT_TRUE(output.equal(wanted(-values.t())));
}

// One of them works on a copy because it is an average of integers, so all do.
TEST_F(Into, AGroupMayHaveIntegersAndOthers) {
  const at::Tensor integers = at::arange(2 * size()) * size();
  const at::Tensor others = at::arange(2.0 * size());
  const auto shares = grouped_reducescatter({integers, others}, "mixed");
  EXPECT_TRUE(shares[0].equal(integers.narrow(0, 2 * rank(), 2)));
  EXPECT_TRUE(shares[1].equal(others.narrow(0, 2 * rank(), 2)));
  EXPECT_TRUE(others.equal(at::arange(2.0 * size()))) << "not changed";
}

// Ranks that have joined give no rows, and get none.
TEST_F(Into, InASetAndAfterAJoin) {
  const ProcessSet set = add_process_set({size() - 1});
  if (set.included()) {
    const at::Tensor output = at::zeros({2});
    EXPECT_TRUE(allgather_into(output, at::ones({2}), OperationOptions().process_set(set))
                    .equal(at::ones({2})));
  }
  if (rank() == 0) {
    const at::Tensor output = at::zeros({2});
    EXPECT_TRUE(allgather_into(output, at::ones({2}), "alone").equal(at::ones({2})));
    const at::Tensor shares = at::zeros({1});
    reducescatter_into(shares, at::ones({size()}), ReducescatterOptions("s").op(ReduceOp::Sum));
    EXPECT_TRUE(shares.equal(at::ones({1})));
  }
  join();
}

// One rank's argument is wrong: the others learn why, and the name stays usable.
TEST_F(Into, RefusesOutputs) {
  const at::Tensor mine = at::ones({size(), 2});
  const at::Tensor good = at::zeros({1, 2});
  struct Wrong {
    at::Tensor output;
    std::string why;
  };
  const std::vector<Wrong> all = {
      {at::zeros({1, 2}, at::kDouble), "the output is Double on cpu, and the tensor is Float"},
      {at::zeros({1, 4}).slice(1, 0, 4, 2), "is not contiguous"},
      {at::zeros({2, 2}), "the output has shape [2, 2] instead of [1, 2]"},
      {at::zeros({1, 3}), "the output has shape [1, 3] instead of [1, 2]"},
      {mine.narrow(0, 0, 1), "the output shares memory with the tensor"},
      {at::_neg_view(at::zeros({1, 2})), "the output is a conjugated or negated view"},
      {at::zeros({1, 2}).to_sparse(), "the output is not dense"},
      {at::Tensor(), "the output is undefined"},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.why);
    const bool is_odd = rank() == size() - 1;
    if (is_odd) {
      EXPECT_THAT(
          message_of<InvalidArgumentError>([&] { reducescatter_into(wrong.output, mine, "x"); }),
          HasSubstr(wrong.why));
    } else {
      EXPECT_THAT(message_of<MismatchError>([&] { reducescatter_into(good, mine, "x"); }),
                  HasSubstr(wrong.why));
    }
    EXPECT_TRUE(reducescatter_into(good, mine, "x").equal(at::ones({1, 2})));
  }
  EXPECT_THAT(message_of<InvalidArgumentError>([] { allgather_into(at::Tensor(), at::ones({1})); }),
              HasSubstr("the output is undefined"));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { alltoall_into(mine, mine); }),
              HasSubstr("shares memory"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] {
                allgather_into(at::ones({4, 3}), at::ones({1, 2}));
              }),
              HasSubstr("the output has shape [4, 3] instead of [4, 2]"));
}

}  // namespace
}  // namespace kolo
