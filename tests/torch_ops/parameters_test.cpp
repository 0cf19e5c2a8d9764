#include <functional>

#include "even_and_odd.hpp"
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::even_and_odd;
using testing_support::message_of;
using testing_support::own;
using testing_support::WithKolo;

using Parameters = WithKolo;

torch::nn::Sequential make_net() {
  return torch::nn::Sequential(torch::nn::Linear(4, 5), torch::nn::BatchNorm1d(5),
                               torch::nn::Linear(5, 2));
}

void expect_equal_on_all_ranks(const at::Tensor& tensor) {
  EXPECT_TRUE(broadcast(tensor, 0).equal(tensor)) << "rank " << rank();
}

TEST_F(Parameters, ParametersAndBuffers) {
  torch::manual_seed(static_cast<std::uint64_t>(rank()));
  auto net = make_net();
  net->forward(torch::randn({8, 4}) * (rank() + 1));  // running statistics differ now
  const int root = size() - 1;
  std::vector<at::Tensor> before;
  for (const auto& p : net->parameters()) before.push_back(p.detach().clone());
  broadcast_parameters(*net, root);
  for (const auto& p : net->parameters()) expect_equal_on_all_ranks(p);
  for (const auto& b : net->buffers()) expect_equal_on_all_ranks(b);
  if (rank() == root) {
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(before[i].equal(net->parameters()[i]));
  }
  EXPECT_TRUE(net->parameters()[0].requires_grad());
}

// A holder and a pointer refer to the module.
TEST_F(Parameters, OfAModuleThatIsReferredTo) {
  for (const bool by_pointer : {false, true}) {
    torch::nn::Linear net(2, 2);
    torch::nn::init::constant_(net->weight, rank());
    if (by_pointer) {
      broadcast_parameters(net.ptr(), size() - 1);
    } else {
      broadcast_parameters(net, size() - 1);
    }
    EXPECT_TRUE(net->weight.equal(torch::full({2, 2}, size() - 1.0))) << net->weight;
  }
}

using Tensors = torch::OrderedDict<std::string, at::Tensor>;

// Of rank r: what modules hold, and what they rarely do.
Tensors tensors_of(int r) {
  const at::Tensor numbers = at::arange(12, at::kFloat).reshape({3, 4}) + 100 * r;
  Tensors tensors;
  tensors.insert("weight", numbers.clone().requires_grad_());
  tensors.insert("frozen", numbers + 1);
  tensors.insert("transposed", (numbers + 2).t());
  tensors.insert("part", at::cat({numbers, numbers}, 1).narrow(1, 3, 2));
  tensors.insert("half", numbers.to(at::kHalf));
  tensors.insert("double", numbers.to(at::kDouble).requires_grad_());
  tensors.insert("count", at::full({2}, r, at::kInt));
  tensors.insert("batches", at::scalar_tensor(7 * r, at::kLong));
  tensors.insert("mask", at::arange(5).eq(r));
  tensors.insert("nothing", at::zeros({0, 3}));
  tensors.insert("undefined", at::Tensor());
  tensors.insert("large", at::full({70000}, r, at::kFloat));
  return tensors;
}

void expect_as_of(int r, const std::vector<at::Tensor>& tensors) {
  const std::vector<std::string> names = tensors_of(r).keys();
  const std::vector<at::Tensor> wanted = tensors_of(r).values();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i].defined()) continue;
    EXPECT_TRUE(tensors[i].equal(wanted[i])) << names[i] << " of rank " << r;
    EXPECT_EQ(tensors[i].strides(), wanted[i].strides()) << names[i];
    EXPECT_EQ(tensors[i].requires_grad(), wanted[i].requires_grad()) << names[i];
  }
}

TEST_F(Parameters, OfEveryKindFromEveryRoot) {
  const std::vector<ProcessSet> sets = even_and_odd();
  for (const ProcessSet& set : {ProcessSet(), own(sets)}) {
    for (const int root : set.ranks()) {
      const Tensors named = tensors_of(rank());
      const Tensors listed = tensors_of(rank());
      broadcast_parameters(named, root, set);
      expect_as_of(root, named.values());
      broadcast_parameters(listed.values(), root, set);
      expect_as_of(root, listed.values());
    }
  }
}

TEST_F(Parameters, OtherTensorsAreAnErrorAndNothingIsChanged) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  using Change = std::function<void(Tensors&)>;
  const std::pair<const char*, Change> cases[] = {
      {"[4, 3]",
       [](Tensors& t) {
         t["frozen"] = at::zeros({4, 3});
       }},
      {"float64", [](Tensors& t) { t["frozen"] = t["frozen"].to(at::kDouble); }},
      {"number of tensors: ", [](Tensors& t) { t["undefined"] = at::zeros({1}); }},
      {"'other'", [](Tensors& t) {
         Tensors renamed;
         for (const auto& item : t)
           renamed.insert(item.key() == "frozen" ? "other" : item.key(), item.value());
         t = renamed;
       }}};
  for (const auto& [difference, change] : cases) {
    for (const int odd : {0, size() - 1}) {
      SCOPED_TRACE(std::string(difference) + " on rank " + std::to_string(odd));
      Tensors tensors = tensors_of(rank());
      if (rank() == odd) change(tensors);
      EXPECT_THAT(message_of<MismatchError>([&] { broadcast_parameters(tensors, 0); }),
                  HasSubstr(difference));
      if (rank() != odd) expect_as_of(rank(), tensors.values());
      const Tensors good = tensors_of(rank());
      broadcast_parameters(good, size() - 1);
      expect_as_of(size() - 1, good.values());
    }
  }
}

TEST_F(Parameters, OtherModelsAreAnError) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const torch::nn::Linear net(rank() == 0 ? 3 : 4, 2);
  EXPECT_THAT(
      message_of<MismatchError>([&] { broadcast_parameters(*net); }),
      HasSubstr("shape of tensor 0 ('weight' on rank 0): [2, 3] on rank 0; [2, 4] on rank"));
}

}  // namespace
}  // namespace kolo
