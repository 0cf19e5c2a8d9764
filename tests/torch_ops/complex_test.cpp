// Complex tensors travel as pairs of real numbers.
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

class Complex : public WithKolo, public testing::WithParamInterface<at::ScalarType> {
 protected:
  // Returns the values of rank r: all elements differ, and no part is zero.
  at::Tensor values(int r, std::vector<std::int64_t> shape) const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    const at::Tensor parts = torch::arange(1, count + 1, torch::kDouble) + 100 * r;
    return torch::complex(parts, -2 * parts - r).reshape(shape).to(GetParam());
  }
  at::Tensor sum(std::vector<std::int64_t> shape) const {
    at::Tensor all = torch::zeros(shape, GetParam());
    for (int r = 0; r < size(); ++r) all += values(r, shape);
    return all;
  }
};

TEST_P(Complex, Allreduce) {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{3}, {}, {0}, {2, 3, 2}, {40000}}) {
    const at::Tensor mine = values(rank(), shape);
    EXPECT_TRUE(allreduce(mine, ReduceOp::Sum).allclose(sum(shape)));
    EXPECT_TRUE(allreduce(mine).allclose(sum(shape) / size()));
    const at::Tensor conjugate = values(rank(), shape).conj();
    ASSERT_EQ(conjugate.is_conj(), true);
    EXPECT_TRUE(allreduce(conjugate, ReduceOp::Sum).allclose(sum(shape).conj()));
    const at::Tensor in_place = values(rank(), shape);
    allreduce_(in_place.conj(), ReduceOp::Sum);
    EXPECT_TRUE(in_place.allclose(sum(shape))) << "written through a view that conjugates";
    const int root = size() - 1;
    const at::Tensor reduced = reduce(conjugate, root, ReduceOp::Sum);
    EXPECT_TRUE(reduced.allclose(rank() == root ? sum(shape).conj() : at::zeros_like(mine)));
    reduce_(mine.conj(), root, ReduceOp::Sum);
    EXPECT_TRUE(mine.allclose(rank() == root ? sum(shape) : values(rank(), shape)));
  }
  const at::Tensor strided = values(rank(), {4, 3}).t();
  EXPECT_TRUE(allreduce(strided, AllreduceOptions(ReduceOp::Sum).prescale_factor(0.5))
                  .allclose(sum({4, 3}).t() * 0.5));
}

TEST_P(Complex, OtherOperations) {
  const int root = size() - 1;
  EXPECT_TRUE(broadcast(values(rank(), {3, 2}), root).equal(values(root, {3, 2})));
  const at::Tensor gathered = allgather(values(rank(), {rank() + 1, 2}));
  std::int64_t begin = 0;
  for (int r = 0; r < size(); begin += r + 1, ++r)
    EXPECT_TRUE(gathered.narrow(0, begin, r + 1).equal(values(r, {r + 1, 2})));
  EXPECT_EQ(gathered.scalar_type(), GetParam());
  const at::Tensor shares = reducescatter(values(rank(), {size(), 2}), ReduceOp::Sum);
  EXPECT_TRUE(shares.allclose(sum({size(), 2}).narrow(0, rank(), 1)));
  const AlltoallResult swapped = alltoall(values(rank(), {size()}));
  for (int r = 0; r < size(); ++r)
    EXPECT_TRUE(swapped.output[r].equal(values(r, {size()})[rank()]));
  if (size() > 1 && rank() < 2) {
    const at::Tensor like = torch::empty({2}, GetParam());
    EXPECT_TRUE(
        sendrecv(values(rank(), {2}), 1 - rank(), like, 1 - rank()).equal(values(1 - rank(), {2})));
  }
  const at::Tensor sparse =
      torch::sparse_coo_tensor(torch::tensor({{std::int64_t{1}}}), values(rank(), {1}), {3});
  EXPECT_TRUE(sparse_allreduce(sparse).to_dense()[1].allclose(sum({1})[0] / size()));
}

TEST_P(Complex, Autograd) {
  const at::Tensor x = values(rank(), {3}).requires_grad_();
  const at::Tensor weights = values(rank() + 1, {3});
  torch::real(allreduce(x, ReduceOp::Sum) * weights).sum().backward();
  at::Tensor all_weights = torch::zeros({3}, GetParam());
  for (int r = 0; r < size(); ++r) all_weights += values(r + 1, {3});
  EXPECT_TRUE(x.grad().allclose(all_weights.conj()));
}

TEST_P(Complex, Gradients) {
  const at::Tensor p = torch::zeros({3}, GetParam()).requires_grad_();
  const at::Tensor large = torch::zeros({50000}, GetParam()).requires_grad_();
  DistributedOptimizer<torch::optim::SGD> optimizer(std::vector<at::Tensor>{p, large},
                                                    torch::optim::SGDOptions(1.0));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    (torch::real(p * values(rank(), {3})).sum() +
     torch::imag(large * values(rank(), {50000})).sum())
        .backward();
    EXPECT_TRUE(p.grad().allclose(sum({3}).conj() / size())) << p.grad();
    optimizer.step();
  }
  EXPECT_TRUE(p.detach().allclose(-3 * sum({3}).conj() / size()));
}

TEST_P(Complex, Disagreement) {
  EXPECT_THAT(
      message_of<InvalidArgumentError>([&] { allreduce(values(rank(), {3}), ReduceOp::Max); }),
      HasSubstr("a complex tensor has no Max"));
  if (size() == 1) return;
  const at::Tensor complex = values(rank(), {3});
  const at::Tensor pairs = at::view_as_real(complex);
  EXPECT_THAT(message_of<MismatchError>([&] { allreduce(rank() == 0 ? complex : pairs, "pairs"); }),
              HasSubstr(std::string("dtype: ") +
                        (GetParam() == torch::kComplexFloat ? "complex64" : "complex128")));
  EXPECT_TRUE(allreduce(complex, ReduceOp::Sum).allclose(sum({3})));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Complex,
                         testing::Values(torch::kComplexFloat, torch::kComplexDouble));

}  // namespace
}  // namespace kolo
