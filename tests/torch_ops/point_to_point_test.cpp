#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using PointToPoint = WithKolo;

int right() {
  return (rank() + 1) % size();
}
int left() {
  return (rank() + size() - 1) % size();
}

TEST_F(PointToPoint, FromRankToRank) {
  for (const at::ScalarType dtype :
       {at::kByte, at::kInt, at::kHalf, at::kFloat, at::kDouble, at::kBool}) {
    for (int to = 1; to < size(); ++to) {
      const at::Tensor tensor =
          at::arange(200000, at::kInt).remainder(100).to(dtype).reshape({200, 1000}).t();
      if (rank() == 0) send(tensor, to);
      if (rank() == to) {
        EXPECT_TRUE(recv(at::empty({1000, 200}, dtype), 0).equal(tensor));
      }
    }
  }
}

// Unnamed ones are matched by their order, whatever else the ranks do in between.
TEST_F(PointToPoint, OrderAndNames) {
  if (size() == 1) GTEST_SKIP() << "there is nobody else";
  for (int repeat = 0; repeat < 3; ++repeat) {
    if (rank() == 0) {
      Handle a = send_async(at::full({3}, 1.0F), 1);
      Handle b = send_async(at::full({3}, 2.0F), 1);
      Handle c = send_async(at::full({3}, 3.0F), 1, "c");
      a.wait();
      b.wait();
      c.wait();
    }
    if (rank() == 1) {
      at::Tensor in = at::zeros({2, 3}).t().t();
      EXPECT_TRUE(recv(at::empty({3}), 0, "c").equal(at::full({3}, 3.0F)));
      recv_(in[0], 0);
      recv_(in[1], 0);
      EXPECT_TRUE(in[0].equal(at::full({3}, 1.0F)));
      EXPECT_TRUE(in[1].equal(at::full({3}, 2.0F)));
    }
  }
  barrier();
}

TEST_F(PointToPoint, SendrecvInARing) {
  if (size() == 1) GTEST_SKIP() << "there is nobody else";
  for (int repeat = 0; repeat < 4; ++repeat) {
    const at::Tensor got =
        sendrecv(at::full({1000}, rank()), right(), at::empty({1000}, at::kLong), left(),
                 repeat % 2 == 0 ? OperationOptions() : OperationOptions("ring"));
    EXPECT_TRUE(got.equal(at::full({1000}, left())));
  }
}

// Both or neither, and what comes after it goes on.
TEST_F(PointToPoint, SendrecvFromARankThatIsNone) {
  if (size() == 1) return;
  const at::Tensor data = at::ones({4});
  if (rank() == 0) {
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { sendrecv(data, 1, data, 77); }),
                HasSubstr("does not take part; choose one of rank"));
    send(data, 1);
  }
  if (rank() == 1) {
    EXPECT_THROW(recv(at::empty({4}), 0), MismatchError);
    EXPECT_TRUE(recv(at::empty({4}), 0).equal(data));
  }
  barrier();
}

// Views that LibTorch negates when they are read.
TEST_F(PointToPoint, NegativeViews) {
  if (size() == 1) return;
  const at::Tensor data = at::_neg_view(at::arange(4.0));
  if (rank() == 0) send(data, 1);
  if (rank() == 1) {
    EXPECT_TRUE(recv(at::empty({4}), 0).equal(-at::arange(4.0)));
    at::Tensor view = at::_neg_view(at::empty({4}));
    send(at::ones({1}), 0, "ready");
    recv_(view, 0, "into");
    EXPECT_TRUE(view.equal(at::arange(4.0)));
  } else if (rank() == 0) {
    recv(at::empty({1}), 1, "ready");
    send(at::arange(4.0), 1, "into");
  }
  barrier();
}

// send() does not write to its tensor.
TEST_F(PointToPoint, ConjugateViews) {
  if (size() == 1 || rank() > 1) return;
  const at::Tensor z = at::complex(at::arange(3.0), at::ones({3}, at::kFloat));
  const std::uint32_t version = z._version();
  if (rank() == 0) {
    send(z.conj(), 1);
    EXPECT_EQ(z._version(), version);
  } else {
    EXPECT_TRUE(recv(at::zeros_like(z), 0).equal(z.conj().resolve_conj()));
  }
}

TEST_F(PointToPoint, Errors) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { send(at::ones({1}), size()); }),
              HasSubstr("does not take part; choose one of rank"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] { send(at::ones({1}), rank()); }),
              HasSubstr("cannot send to itself"));
  if (size() == 1) return;
  if (rank() == 0) {
    EXPECT_THAT(message_of<MismatchError>([] { send(at::ones({4}), 1, "m"); }),
                HasSubstr("shape: [4] on rank 0; [5] on rank 1"));
  }
  if (rank() == 1) {
    EXPECT_THAT(message_of<MismatchError>([] { recv(at::ones({5}), 0, "m"); }),
                HasSubstr("shape: [4] on rank 0; [5] on rank 1"));
  }
  const ProcessSet pair = add_process_set({1, 0});
  if (rank() == 0) send(at::full({2}, 7), 1, OperationOptions().process_set(pair));
  if (rank() == 1) {
    EXPECT_TRUE(recv(at::empty({2}, at::kLong), 0, OperationOptions().process_set(pair))
                    .equal(at::full({2}, 7)));
  }
}

// A network cut in two: its first half on rank 0, its second on rank 1; gradients as in one
// process.
TEST_F(PointToPoint, AModelOverTwoRanks) {
  if (size() == 1) GTEST_SKIP() << "there is nobody else";
  torch::manual_seed(1);
  torch::nn::Linear first(5, 4);
  torch::nn::Linear second(4, 2);
  const at::Tensor x = torch::randn({3, 5});
  const auto loss_of = [&](const at::Tensor& hidden) { return second(hidden).pow(2).sum(); };
  loss_of(torch::tanh(first(x))).backward();
  std::vector<at::Tensor> expected;
  for (const at::Tensor& p : first->parameters()) expected.push_back(p.grad().clone());
  for (const at::Tensor& p : second->parameters()) expected.push_back(p.grad().clone());
  first->zero_grad();
  second->zero_grad();
  for (int repeat = 0; repeat < 2; ++repeat) {
    if (rank() == 0) {
      send(torch::tanh(first(x)), 1).backward();
      EXPECT_TRUE(first->weight.grad().allclose(expected[0] * (repeat + 1)));
      EXPECT_TRUE(first->bias.grad().allclose(expected[1] * (repeat + 1)));
    }
    if (rank() == 1) {
      loss_of(recv(at::empty({3, 4}).requires_grad_(), 0)).backward();
      EXPECT_TRUE(second->weight.grad().allclose(expected[2] * (repeat + 1)));
    }
  }
}

}  // namespace
}  // namespace kolo
