// convert_sync_batchnorm(): ranks with parts of a batch compute what one process computes with all
// of it.
#include <numeric>

#include "torch_ops/fixture.hpp"

namespace kolo {
namespace {

using testing_support::message_of;
using testing_support::WithKolo;
using SyncBatchNorm = WithKolo;

// Of a batch of 12, this rank's rows.
at::Tensor share(const at::Tensor& all, const std::vector<std::int64_t>& rows) {
  const std::int64_t begin = std::accumulate(rows.begin(), rows.begin() + rank(), std::int64_t{0});
  return all.narrow(0, begin, rows[static_cast<std::size_t>(rank())]);
}

// Equal shares, uneven ones, and all but nothing for the last rank.
std::vector<std::vector<std::int64_t>> ways_to_share() {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<std::int64_t> equal(ranks, 12 / size());
  std::vector<std::int64_t> uneven(ranks, 2);  // LibTorch's modules refuse one value of a channel
  uneven[0] += 12 - 2 * static_cast<std::int64_t>(ranks);
  std::vector<std::int64_t> empty(ranks, 0);
  empty[0] = 12;
  return {equal, uneven, empty};
}

template <class Norm>
void check(Norm (*make)(), const std::vector<std::int64_t>& shape, at::ScalarType dtype,
           double tolerance) {
  torch::manual_seed(5);
  for (const auto& rows : ways_to_share()) {
    SCOPED_TRACE("rank 0 has " + std::to_string(rows[0]) + " rows, of " +
                 std::to_string(shape.size()) + " dimensions");
    Norm whole = make();
    Norm parts = make();
    for (Norm norm : {whole, parts}) norm->to(dtype);
    EXPECT_EQ(convert_sync_batchnorm(parts), 1U);
    for (int step = 0; step < 3; ++step) {
      // A mean that is large beside the deviation.
      const at::Tensor data =
          (torch::randn(shape, torch::kDouble) + 100 * step).to(dtype).requires_grad_();
      const at::Tensor slope = torch::randn(shape, torch::kDouble).to(dtype);
      const at::Tensor mine = share(data.detach(), rows).clone().requires_grad_();
      const at::Tensor wanted = whole->forward(data);
      const at::Tensor found = parts->forward(mine);
      EXPECT_TRUE(found.allclose(share(wanted, rows), tolerance, tolerance));
      whole->zero_grad();
      parts->zero_grad();
      (wanted * slope).sum().backward();
      (found * share(slope, rows)).sum().backward();
      EXPECT_TRUE(mine.grad().allclose(share(data.grad(), rows), tolerance, tolerance));
      for (std::size_t i = 0; i < whole->parameters().size(); ++i) {
        const at::Tensor sum = allreduce(parts->parameters()[i].grad(), ReduceOp::Sum);
        EXPECT_TRUE(sum.allclose(whole->parameters()[i].grad(), tolerance, tolerance * 10));
      }
      for (std::size_t i = 0; i < whole->buffers().size(); ++i)
        EXPECT_TRUE(parts->buffers()[i].allclose(whole->buffers()[i], tolerance, tolerance));
    }
    whole->eval();
    parts->eval();
    const at::Tensor data = torch::randn(shape, torch::kDouble).to(dtype);
    EXPECT_TRUE(parts->forward(data).allclose(whole->forward(data), tolerance, tolerance));
  }
}

using torch::nn::BatchNorm1d;
using torch::nn::BatchNorm2d;
using torch::nn::BatchNorm3d;
using torch::nn::BatchNormOptions;

TEST_F(SyncBatchNorm, EqualsTheWholeBatch) {
  check<BatchNorm1d>([] { return BatchNorm1d(3); }, {12, 3}, torch::kDouble, 1e-10);
  check<BatchNorm1d>([] { return BatchNorm1d(3); }, {12, 3, 5}, torch::kDouble, 1e-10);
  check<BatchNorm2d>([] { return BatchNorm2d(BatchNormOptions(3).momentum(0.3).eps(1e-3)); },
                     {12, 3, 4, 2}, torch::kDouble, 1e-10);
  check<BatchNorm2d>([] { return BatchNorm2d(BatchNormOptions(3).affine(false)); }, {12, 3, 4, 2},
                     torch::kDouble, 1e-10);
  check<BatchNorm3d>([] { return BatchNorm3d(BatchNormOptions(2).momentum(std::nullopt)); },
                     {12, 2, 3, 2, 2}, torch::kDouble, 1e-10);
  check<BatchNorm2d>([] { return BatchNorm2d(3); }, {12, 3, 4, 2}, torch::kFloat, 2e-3);
}

TEST_F(SyncBatchNorm, CommunicatesOnceInEachDirection) {
  BatchNorm1d norm(3);
  convert_sync_batchnorm(norm);
  const at::Tensor data = torch::randn({4, 3}).requires_grad_();
  const auto collectives = [] { return metrics().collectives; };
  const std::uint64_t each = size() == 1 ? 0 : 1;  // one rank has its own batch alone
  for (int step = 0; step < 3; ++step) {
    const std::uint64_t before = collectives();
    const at::Tensor output = norm->forward(data);
    EXPECT_EQ(collectives() - before, each);
    output.pow(2).sum().backward();
    EXPECT_EQ(collectives() - before, 2 * each);
  }
  norm->eval();
  const std::uint64_t before = collectives();
  norm->forward(data).sum().backward();
  EXPECT_EQ(collectives() - before, 0U);
}

// Without running statistics evaluation normalises with the batch, of all ranks.
TEST_F(SyncBatchNorm, WithoutRunningStatistics) {
  BatchNorm1d norm(BatchNormOptions(2).track_running_stats(false));
  convert_sync_batchnorm(norm);
  const at::Tensor mine = torch::full({1, 2}, static_cast<double>(rank())).to(torch::kFloat);
  const at::Tensor sum = allreduce(norm->forward(mine.repeat({2, 1})), ReduceOp::Sum);
  EXPECT_TRUE(sum.allclose(torch::zeros({2, 2}), 1e-4, 1e-4));
  norm->eval();
  // In evaluation each rank is alone.
  if (rank() == 0) {
    EXPECT_TRUE(norm->forward(mine.repeat({2, 1})).equal(torch::zeros({2, 2})));
  }
  BatchNorm1d none(BatchNormOptions(2).track_running_stats(false).affine(false));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { convert_sync_batchnorm(none); }),
              testing::HasSubstr("neither parameters nor running statistics"));
}

// Members of the program's own modules stay what they are; clones are ordinary modules.
struct NetImpl : torch::nn::Cloneable<NetImpl> {
  void reset() override {
    first = register_module("first", torch::nn::Linear(2, 3));
    norm = register_module("norm", BatchNorm1d(3));
    rest = register_module("rest", torch::nn::Sequential(BatchNorm1d(3), torch::nn::Linear(3, 1)));
  }
  NetImpl() { NetImpl::reset(); }
  at::Tensor forward(const at::Tensor& x) { return rest->forward(norm(first(x))); }
  torch::nn::Linear first{nullptr};
  BatchNorm1d norm{nullptr};
  torch::nn::Sequential rest{nullptr};
};
TORCH_MODULE(Net);

TEST_F(SyncBatchNorm, ModulesStayTheSameObjects) {
  torch::manual_seed(3);
  Net net;
  net->to(torch::kDouble);
  EXPECT_EQ(convert_sync_batchnorm(net), 2U);
  const auto clone = std::dynamic_pointer_cast<NetImpl>(net->clone());
  torch::manual_seed(1);
  const at::Tensor all = torch::randn({12, 2}, torch::kDouble);
  const at::Tensor whole = clone->forward(all);
  EXPECT_TRUE(net->forward(all.narrow(0, 12 / size() * rank(), 12 / size()))
                  .allclose(whole.narrow(0, 12 / size() * rank(), 12 / size()), 1e-10, 1e-10));
}

TEST_F(SyncBatchNorm, InAProcessSet) {
  std::vector<int> members(static_cast<std::size_t>((size() + 1) / 2));
  std::iota(members.begin(), members.end(), 0);
  const ProcessSet set = add_process_set(members);
  if (!set.included()) return;
  BatchNorm1d norm(1);
  convert_sync_batchnorm(norm, set);
  norm->forward(torch::tensor({{0.0F + static_cast<float>(rank())}, {1.0F}}));
  double sum = 0;
  for (const int member : members) sum += member + 1;
  EXPECT_NEAR(norm->running_mean.item<double>(),
              0.1 * sum / (2 * static_cast<double>(members.size())), 1e-6);
}

// Ranks of one set have converted other modules than those of the others have.
TEST_F(SyncBatchNorm, InTwoProcessSets) {
  std::vector<int> members(static_cast<std::size_t>((size() + 1) / 2));
  std::iota(members.begin(), members.end(), 0);
  const ProcessSet set = add_process_set(members);
  BatchNorm1d head(1);
  if (set.included()) convert_sync_batchnorm(head, set);
  BatchNorm1d body(1);
  convert_sync_batchnorm(body);
  const at::Tensor mine = torch::tensor({{0.0F}, {2.0F}}) + static_cast<float>(rank());
  body->forward(mine);
  EXPECT_NEAR(body->running_mean.item<double>(), 0.1 * (1 + (size() - 1) / 2.0), 1e-6);
  if (set.included()) head->forward(mine);
}

TEST_F(SyncBatchNorm, DerivativesOfGradientsAreRefused) {
  BatchNorm1d norm(1);
  convert_sync_batchnorm(norm);
  const at::Tensor data = torch::tensor({{1.0F}, {3.0F}, {4.0F}}).requires_grad_();
  const at::Tensor loss = norm->forward(data).pow(2).sum();
  if (size() == 1) return;  // it is LibTorch's own
  EXPECT_THAT(message_of<InvalidArgumentError>(
                  [&] { torch::autograd::grad({loss}, {data}, {}, true, /*create_graph=*/true); }),
              testing::HasSubstr("create_graph"));
}

TEST_F(SyncBatchNorm, NoSamplesAtAllChangeNothing) {
  BatchNorm2d norm(2);
  convert_sync_batchnorm(norm);
  const at::Tensor output = norm->forward(torch::zeros({0, 2, 3, 3}));
  EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{0, 2, 3, 3}));
  EXPECT_TRUE(norm->running_mean.equal(torch::zeros({2})));
  EXPECT_TRUE(norm->running_var.equal(torch::ones({2})));
}

// Half types, another memory order, and a module that was moved after it was converted.
TEST_F(SyncBatchNorm, OtherDtypesAndOrders) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    torch::manual_seed(4);
    BatchNorm2d parts(3);
    EXPECT_EQ(convert_sync_batchnorm(parts), 1U);
    BatchNorm2d whole(3);
    parts->to(torch::kDouble);
    whole->to(torch::kDouble);
    const at::Tensor all = torch::randn({12, 3, 4, 2}, torch::kDouble).to(dtype);
    parts->to(torch::kFloat);
    const at::Tensor mine =
        all.narrow(0, 12 / size() * rank(), 12 / size()).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor found = parts->forward(mine);
    EXPECT_EQ(found.scalar_type(), dtype);
    const at::Tensor wanted =
        whole->forward(all.to(torch::kDouble)).narrow(0, 12 / size() * rank(), 12 / size());
    EXPECT_TRUE(found.to(torch::kDouble).allclose(wanted, 2e-2, 2e-2));
    EXPECT_TRUE(parts->running_var.to(torch::kDouble).allclose(whole->running_var, 1e-5, 1e-5));
  }
}

// Parameters, too, are those of one process with the whole batch.
TEST_F(SyncBatchNorm, TrainsAsOneProcess) {
  namespace nn = torch::nn;
  const auto make = [] {
    torch::manual_seed(6);
    nn::Sequential net(nn::Linear(4, 5), BatchNorm1d(5), nn::ReLU(), nn::Linear(5, 1));
    net->to(torch::kDouble);
    return net;
  };
  nn::Sequential whole = make();
  nn::Sequential parts = make();
  EXPECT_EQ(convert_sync_batchnorm(parts), 1U);
  torch::optim::SGD plain(whole->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  DistributedOptimizer<torch::optim::SGD> distributed(parts,
                                                      torch::optim::SGDOptions(0.2).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    const at::Tensor data = torch::randn({12, 4}, torch::kDouble);
    const auto loss = [&](nn::Sequential& net, const at::Tensor& input) {
      return (net->forward(input) - input.sum(1, true)).pow(2).mean();
    };
    plain.zero_grad();
    loss(whole, data).backward();
    plain.step();
    distributed.zero_grad();
    loss(parts, data.narrow(0, 12 / size() * rank(), 12 / size())).backward();
    distributed.step();
  }
  for (std::size_t i = 0; i < whole->parameters().size(); ++i)
    EXPECT_TRUE(parts->parameters()[i].allclose(whole->parameters()[i], 1e-10, 1e-10));
}

// A rank without batches joins; the statistics are those of the others.
TEST_F(SyncBatchNorm, AfterAJoin) {
  BatchNorm1d norm(1);
  convert_sync_batchnorm(norm);
  const at::Tensor data = torch::tensor({{1.0F}, {3.0F}, {8.0F}}).requires_grad_();
  const at::Tensor alone = data.detach().clone().requires_grad_();
  const at::Tensor slope = torch::tensor({{2.0F}, {1.0F}, {0.5F}});
  if (rank() != size() - 1 || size() == 1) {
    // All others have the same rows, so each has what it would have alone.
    const at::Tensor output = norm->forward(data);
    const at::Tensor wanted = BatchNorm1d(1)->forward(alone);
    EXPECT_TRUE(output.allclose(wanted, 1e-4, 1e-4));
    (output * slope).sum().backward();
    (wanted * slope).sum().backward();
    EXPECT_TRUE(data.grad().allclose(alone.grad(), 1e-3, 1e-3)) << data.grad();
    EXPECT_GT(data.grad().abs().max().item<float>(), 0.01);
  }
  join();
}

}  // namespace
}  // namespace kolo
