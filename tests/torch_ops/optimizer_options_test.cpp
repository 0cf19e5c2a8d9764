// The options of DistributedOptimizer, and that all of them work together.
#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;
using OptimizerOptions = WithKolo;

// A model with everything that gradients come in: sparse ones, dense ones, one that no rank has,
// and one that not all ranks have.
struct Model : torch::nn::Module {
  Model() {
    torch::manual_seed(3);
    embedding = register_module(
        "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(12, 4).sparse(true)));
    linear = register_module("linear", torch::nn::Linear(4, 3));
    sometimes = register_parameter("sometimes", torch::randn({3}));
    never = register_parameter("never", torch::randn({2}));
    for (int i = 0; i < 3; ++i)
      many.push_back(register_parameter("many" + std::to_string(i), torch::randn({5})));
  }
  // Another loss on every rank and in every pass.
  at::Tensor loss(int pass) {
    const at::Tensor rows = torch::tensor({rank(), rank() + pass + 1, 3});
    at::Tensor out = linear(embedding(rows)).pow(2).sum() * (rank() + 1 + pass);
    if (rank() != 0 || pass > 0) out = out + (sometimes * (rank() + 2)).sum();
    for (const at::Tensor& p : many) out = out + (p * p).sum() * (rank() + pass);
    return out / 16;
  }

  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear linear{nullptr};
  at::Tensor sometimes;
  at::Tensor never;
  std::vector<at::Tensor> many;
};

at::Tensor dense(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient.to_dense() : gradient;
}

struct Case {
  ReduceOp op;
  double predivide;
  Compression compression;
  int passes;
  bool sparse_as_dense;
  int grouping;  // 0: none, 1: three groups, 2: a list
  bool named;
};

std::string describe(const Case& c) {
  return std::string("op ") + std::to_string(static_cast<int>(c.op)) + " predivide " +
         std::to_string(c.predivide) + " compression " +
         (c.compression.dtype() ? c10::toString(*c.compression.dtype()) : "none") + " passes " +
         std::to_string(c.passes) + " sparse_as_dense " + std::to_string(c.sparse_as_dense) +
         " grouping " + std::to_string(c.grouping) + " named " + std::to_string(c.named);
}

// What every gradient must be: the sum of all ranks' own ones, or their mean.
std::vector<at::Tensor> expected_gradients(const Case& c) {
  Model model;
  for (int pass = 0; pass < c.passes; ++pass) model.loss(pass).backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& p : model.parameters()) {
    const at::Tensor mine = p.grad().defined() ? dense(p.grad()) : at::zeros_like(p);
    gradients.push_back(allreduce(mine, c.op));
  }
  return gradients;
}

void check(const Case& c) {
  SCOPED_TRACE(describe(c));
  const std::vector<at::Tensor> expected = expected_gradients(c);
  Model model;
  DistributedOptimizerOptions options;
  options.op(c.op)
      .gradient_predivide_factor(c.predivide)
      .compression(c.compression)
      .backward_passes_per_step(c.passes)
      .sparse_as_dense(c.sparse_as_dense);
  if (c.grouping == 1) options.num_groups(3);
  if (c.grouping == 2) options.groups({{model.linear->weight, model.sometimes, model.many[1]}});
  if (c.named) options.named_parameters(model.named_parameters().pairs());
  DistributedSgd optimizer(model.parameters(), torch::optim::SGDOptions(0.0), options);
  for (int step = 0; step < 4; ++step) {  // by name, by number, in buckets
    for (int pass = 0; pass < c.passes; ++pass) model.loss(pass).backward();
    optimizer.synchronize();
    const auto parameters = model.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor gradient = parameters[i].grad();
      if (!gradient.defined()) {
        EXPECT_TRUE(expected[i].equal(at::zeros_like(expected[i])));
        continue;
      }
      const double tolerance = !c.compression.dtype()                ? 1e-5
                               : *c.compression.dtype() == at::kHalf ? 4e-3
                                                                     : 3e-2;
      EXPECT_TRUE(dense(gradient).allclose(expected[i], tolerance, tolerance))
          << "parameter " << i << " step " << step << "\n"
          << dense(gradient) << "\n"
          << expected[i];
    }
    optimizer.step();
    optimizer.zero_grad();
  }
}

TEST_F(OptimizerOptions, AllTogether) {
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
    for (const Compression& compression :
         {Compression::None, Compression::Fp16, Compression::Bf16}) {
      for (const int passes : {1, 2}) {
        for (const bool sparse_as_dense : {false, true}) {
          for (const int grouping : {0, 1, 2}) {
            const double predivide = op == ReduceOp::Average && passes == 2 ? 4.0 : 1.0;
            check({op, predivide, compression, passes, sparse_as_dense, grouping,
                   (grouping + passes) % 2 == 0});
          }
        }
      }
    }
  }
}

TEST_F(OptimizerOptions, NoSyncAccumulates) {
  const at::Tensor p = torch::zeros({3}).requires_grad_();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    {
      const auto guard = optimizer.no_sync();
      for (int i = 0; i < 3; ++i) (p.sum() * (rank() + 1)).backward();
      EXPECT_TRUE(p.grad().equal(torch::full({3}, 3.0F * static_cast<float>(rank() + 1))));
    }
    (p.sum() * (rank() + 1)).backward();
    optimizer.synchronize();
    EXPECT_TRUE(p.grad().allclose(torch::full({3}, 4 * (size() + 1) / 2.0F)));
    optimizer.step();
  }
}

// A step with fewer passes reduces what is there, and one pass more than said is the first one of
// the next reduction.
TEST_F(OptimizerOptions, FewerOrMorePassesThanSaid) {
  const at::Tensor p = torch::zeros({3}).requires_grad_();
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(0.0),
                           DistributedOptimizerOptions().backward_passes_per_step(2));
  const auto mean = [](double passes) { return torch::full({3}, passes * (size() + 1) / 2.0); };
  for (const int passes : {1, 3, 2, 5, 4}) {
    SCOPED_TRACE(passes);
    optimizer.zero_grad();
    for (int pass = 1; pass <= passes; ++pass) {
      (p.sum() * (rank() + 1)).backward();
      const double reduced = pass / 2 * 2;
      const double own = (pass % 2) * (rank() + 1);
      EXPECT_TRUE(p.grad().allclose(mean(reduced) + own)) << p.grad();
    }
    optimizer.step();
    EXPECT_TRUE(p.grad().allclose(mean(passes))) << p.grad();
  }
}

// Ranks have their parameters in different order; names say which is which.
TEST_F(OptimizerOptions, NamesMatchParametersInAnyOrder) {
  const at::Tensor a = torch::zeros({3}).requires_grad_();
  const at::Tensor b = torch::zeros({3}).requires_grad_();
  const bool swap = rank() % 2 == 1;
  DistributedOptimizerOptions options;
  options.op(ReduceOp::Sum).named_parameters({{"a", a}, {"b", b}});
  DistributedSgd optimizer(swap ? std::vector<at::Tensor>{b, a} : std::vector<at::Tensor>{a, b},
                           torch::optim::SGDOptions(1.0), options);
  (a.sum() + 10 * b.sum()).backward();
  optimizer.step();
  EXPECT_TRUE(a.grad().equal(torch::full({3}, static_cast<float>(size()))));
  EXPECT_TRUE(b.grad().equal(torch::full({3}, 10.0F * static_cast<float>(size()))));
}

// A module's names are those of messages; Base's options may be left out where Base has defaults.
TEST_F(OptimizerOptions, OfAModule) {
  torch::nn::Linear holder(2, 3);
  const std::shared_ptr<torch::nn::LinearImpl> pointer = holder.ptr();
  const auto step = [&](auto& optimizer) {
    optimizer.zero_grad();
    (holder->weight.sum() * (rank() + 1)).backward();
    optimizer.step();
    EXPECT_TRUE(holder->weight.grad().allclose(torch::full({3, 2}, (size() + 1) / 2.0)));
  };
  {
    DistributedSgd optimizer(holder, torch::optim::SGDOptions(0.1));
    step(optimizer);
  }
  {
    DistributedSgd optimizer(*holder, torch::optim::SGDOptions(0.1),
                             DistributedOptimizerOptions().name("o"));
    step(optimizer);
  }
  {
    DistributedOptimizer<torch::optim::Adam> optimizer(pointer);
    step(optimizer);
  }
  {
    DistributedOptimizer<torch::optim::Adam> optimizer(holder,
                                                       DistributedOptimizerOptions().name("p"));
    step(optimizer);
  }
  {
    DistributedOptimizer<torch::optim::Adam> optimizer(holder->parameters());
    step(optimizer);
  }
  if (size() == 1) return;
  torch::nn::Linear odd(2, rank() == 0 ? 3 : 4);
  DistributedSgd optimizer(odd, torch::optim::SGDOptions(0.1),
                           DistributedOptimizerOptions().name("o"));
  EXPECT_THAT(message_of<MismatchError>([&] { odd->weight.sum().backward(); }),
              HasSubstr("o.gradient.weight"));
}

// A module with two parents is among the parameters twice. The gradient is the ranks' average once.
TEST_F(OptimizerOptions, AParameterThatIsListedTwiceIsOne) {
  for (const int groups : {0, 1}) {
    const at::Tensor a = torch::zeros({3}).requires_grad_();
    const at::Tensor b = torch::zeros({2}).requires_grad_();
    const at::Tensor later = torch::zeros({1}).requires_grad_();
    DistributedSgd optimizer(std::vector<at::Tensor>{a, b, a}, torch::optim::SGDOptions(1.0),
                             DistributedOptimizerOptions().num_groups(groups));
    optimizer.add_param_group(torch::optim::OptimizerParamGroup({later, later}));
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      ((a.sum() + 2 * b.sum() + 4 * later.sum()) * (rank() + 1)).backward();
      optimizer.step();
      const double mean = (size() + 1) / 2.0;
      EXPECT_TRUE(a.grad().allclose(torch::full({3}, mean)));
      EXPECT_TRUE(b.grad().allclose(torch::full({2}, 2 * mean)));
      EXPECT_TRUE(later.grad().allclose(torch::full({1}, 4 * mean)));
      EXPECT_TRUE(a.allclose(torch::full({3}, -2 * mean * (step + 1))))
          << "stepped twice, as listed";
    }
  }
}

TEST_F(OptimizerOptions, WrongOptions) {
  const at::Tensor p = torch::zeros({3}).requires_grad_();
  const auto message = [&](const DistributedOptimizerOptions& options) {
    return message_of<InvalidArgumentError>([&] {
      DistributedSgd(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0), options);
    });
  };
  using Options = DistributedOptimizerOptions;
  EXPECT_THAT(message(Options().backward_passes_per_step(0)), HasSubstr("at least 1"));
  EXPECT_THAT(message(Options().op(ReduceOp::Sum).gradient_predivide_factor(2)),
              HasSubstr("belongs to Average, not to Sum"));
  EXPECT_THAT(message(Options().op(ReduceOp::Sum).average_over_joined(false)),
              HasSubstr("average_over_joined(false) belongs to Average, not to Sum"));
  EXPECT_THAT(message(Options().num_groups(1).groups({{p}})), HasSubstr("not both"));
  EXPECT_THAT(message(Options().groups({{p}, {}})), HasSubstr("group 1 of groups is empty"));
  EXPECT_THAT(message(Options().name("o").groups({{p}, {p}})),
              HasSubstr("group 1 of groups has the parameter 'o.gradient.0', which is in a group"));
  EXPECT_THAT(message(Options().groups({{p, p}})), HasSubstr("list it once"));
  EXPECT_THAT(message(Options().groups({{p, torch::zeros({2, 5})}})),
              HasSubstr("group 0 of groups has a tensor, shape [2, 5], that is not one of"));
  EXPECT_THAT(message(Options().groups({{at::Tensor()}})), HasSubstr("shape undefined"));
  EXPECT_THAT(message(Options().named_parameters({{"p", p}, {"p", p}})), HasSubstr("'p' twice"));
  EXPECT_THAT(message(Options().named_parameters({{"q", torch::zeros({1})}})),
              HasSubstr("is not in named_parameters"));
  // None of them has left a hook behind.
  DistributedSgd optimizer(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1.0));
  p.sum().backward();
  optimizer.step();
}

}  // namespace
}  // namespace kolo
