// What can be saved, and that it comes back.
#include <torch/csrc/jit/api/module.h>

#include <filesystem>

#include "checkpoint/file_system.hpp"
#include "checkpoint/reading.hpp"
#include "checkpoint/trained.hpp"
#include "shared_folder.hpp"
#include "torch_ops/fixture.hpp"

namespace kolo::testing_support {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class CheckpointState : public WithKolo {
 protected:
  // Saves with what `add` adds to the first, restores with what it adds to the second.
  template <typename State, typename Add>
  void save_and_restore(State& from, State& to, const Add& add, CheckpointOptions options = {}) {
    const SharedFolder folder;
    {
      Checkpoint checkpoint(folder.path(), options);
      add(checkpoint, from);
      checkpoint.save(1);
    }
    Checkpoint checkpoint(folder.path(), options);
    add(checkpoint, to);
    ASSERT_TRUE(checkpoint.restore());
  }
};

TEST_F(CheckpointState, TensorsOfEveryKind) {
  std::vector<torch::Tensor> from = {
      torch::arange(6).view({2, 3}),
      torch::rand({4, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast),
      torch::rand({6, 7}).t(),
      torch::rand({10, 10}).slice(1, 2, 9, 3),
      torch::tensor(3.5),
      torch::empty({0, 4}),
      torch::rand({3}) > 0.5,
      torch::rand({3, 3}).to(at::kHalf),
      torch::rand({3, 3}).to(at::kBFloat16),
      torch::rand({5}, at::kDouble),
      torch::rand({5}, at::kComplexFloat),
      torch::rand({5}, at::kComplexDouble),
      torch::rand({5}, at::kComplexFloat).conj(),
      torch::rand({4}).to(at::kFloat8_e4m3fn),
      torch::rand({4}).to(at::kFloat8_e5m2),
      torch::arange(5).to(at::kByte),
      torch::arange(5).to(at::kUInt16),
      torch::rand({400000})};
  std::vector<torch::Tensor> to;
  for (const auto& tensor : from) {
    to.push_back(torch::empty_like(tensor.resolve_conj()));
  }
  save_and_restore(from, to, [](Checkpoint& checkpoint, std::vector<torch::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      checkpoint.add("t" + std::to_string(i), tensors[i]);
  });
  for (std::size_t i = 0; i < from.size(); ++i) {
    // Of rank 0: torch::rand() differs from rank to rank.
    const torch::Tensor bytes = from[i].resolve_conj().contiguous();
    const torch::Tensor expected = broadcast(
        at::from_blob(bytes.data_ptr(), {static_cast<std::int64_t>(bytes.nbytes())}, at::kByte), 0);
    const torch::Tensor got = to[i].contiguous();
    EXPECT_TRUE(torch::equal(
        at::from_blob(got.data_ptr(), {static_cast<std::int64_t>(got.nbytes())}, at::kByte),
        expected))
        << "tensor " << i << ", " << from[i].dtype() << from[i].sizes();
  }
}

struct Values {
  std::int64_t epoch = 0;
  int small = 0;
  unsigned count = 0;
  bool flag = false;
  double real = 0;
  float single = 0;
  std::string text;
  std::string long_text;
  std::string odd_text;

  auto tied() const {
    return std::tie(epoch, small, count, flag, real, single, text, long_text, odd_text);
  }
};

TEST_F(CheckpointState, ValuesOfEveryKind) {
  Values from{
      -5, 3, 7, true, 0.1, 0.1F, "lr: 0.1\n", std::string(100000, 'x'), std::string("a\0b\0", 4)};
  Values to;
  save_and_restore(from, to, [](Checkpoint& checkpoint, Values& values) {
    checkpoint.add("epoch", values.epoch).add("small", values.small).add("count", values.count);
    checkpoint.add("flag", values.flag).add("real", values.real).add("single", values.single);
    checkpoint.add("text", values.text).add("long", values.long_text);
    checkpoint.add("odd/name", values.odd_text);
  });
  EXPECT_EQ(from.tied(), to.tied());
}

TEST_F(CheckpointState, ReduceOnPlateau) {
  struct State {
    std::vector<torch::Tensor> weights = {torch::zeros({1}, torch::requires_grad())};
    torch::optim::SGD optimizer{weights, torch::optim::SGDOptions(1.0)};
    torch::optim::ReduceLROnPlateauScheduler scheduler{
        optimizer, torch::optim::ReduceLROnPlateauScheduler::min, 0.5F, 2,
        1e-4,      torch::optim::ReduceLROnPlateauScheduler::rel, 1};
    double rate() { return optimizer.param_groups()[0].options().get_lr(); }
  };
  State from;
  State unbroken;
  State to;
  const auto losses = {1.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F};
  for (const float loss : losses) {
    from.scheduler.step(loss);
    unbroken.scheduler.step(loss);
  }
  save_and_restore(from, to, [](Checkpoint& checkpoint, State& state) {
    checkpoint.add("optimizer", state.optimizer).add("scheduler", state.scheduler);
  });
  for (int i = 0; i < 9; ++i) {
    to.scheduler.step(1.5F);
    unbroken.scheduler.step(1.5F);
    EXPECT_EQ(to.rate(), unbroken.rate()) << "step " << i;
  }
  EXPECT_LT(to.rate(), 0.5);
}

struct Lbfgs {
  explicit Lbfgs(double first)
      : weight(torch::arange(5).add(first).set_requires_grad(true)),
        optimizer(std::vector<torch::Tensor>{weight},
                  torch::optim::LBFGSOptions(0.1).max_iter(2).line_search_fn("strong_wolfe")) {}
  void advance() {
    optimizer.step([this] {
      optimizer.zero_grad();
      torch::Tensor loss = ((weight - torch::arange(5)).pow(4) + weight.sin()).sum();
      loss.backward();
      return loss;
    });
  }
  torch::Tensor weight;
  torch::optim::LBFGS optimizer;
};

// Whose state is of all parameters together.
TEST_F(CheckpointState, LBFGS) {
  Lbfgs from(0.5);
  Lbfgs to(3);
  for (int i = 0; i < 4; ++i) from.advance();
  save_and_restore(from, to, [](Checkpoint& checkpoint, Lbfgs& state) {
    checkpoint.add("weight", state.weight).add("optimizer", state.optimizer);
  });
  for (int i = 0; i < 4; ++i) {
    from.advance();
    to.advance();
    EXPECT_TRUE(torch::equal(from.weight, to.weight)) << "step " << i;
  }
}

// An optimizer that kolo does not know: its own save() and load() are asked.
class Slow : public torch::optim::Optimizer {
 public:
  struct Options : torch::optim::OptimizerCloneableOptions<Options> {};
  explicit Slow(std::vector<torch::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<Options>()) {}
  torch::Tensor step(LossClosure) override { return ++steps, torch::Tensor(); }
  void save(torch::serialize::OutputArchive& archive) const override {
    archive.write("steps", c10::IValue(steps));
  }
  void load(torch::serialize::InputArchive& archive) override {
    c10::IValue value;
    archive.read("steps", value);
    steps = value.toInt();
  }
  std::int64_t steps = 0;
};

TEST_F(CheckpointState, UnknownOptimizer) {
  Slow from({torch::zeros({2})});
  Slow to({torch::zeros({2})});
  from.steps = 7;
  save_and_restore(from, to, [](Checkpoint& checkpoint, Slow& optimizer) {
    checkpoint.add("optimizer", optimizer);
  });
  EXPECT_EQ(to.steps, 7);
}

// Archives within archives, and what HDF5 would not give back, are saved as they are.
TEST_F(CheckpointState, ArchivesThatCannotBeTakenApart) {
  struct Value {
    void save(torch::serialize::OutputArchive& archive) const { write(archive, depth); }
    void write(torch::serialize::OutputArchive& archive, int left) const {
      if (left == 0) return archive.write("text", c10::IValue(text));
      torch::serialize::OutputArchive inner(archive.compilation_unit());
      write(inner, left - 1);
      archive.write("inner", inner);
    }
    void load(torch::serialize::InputArchive& archive) { read(archive, depth); }
    void read(torch::serialize::InputArchive& archive, int left) {
      if (left > 0) {
        torch::serialize::InputArchive inner;
        archive.read("inner", inner);
        return read(inner, left - 1);
      }
      c10::IValue value;
      archive.read("text", value);
      text = value.toStringRef();
    }
    int depth = 0;
    std::string text;
  };
  for (const int depth : {0, 1, 7, 8, 20}) {
    for (const std::string& text : {std::string("plain"), std::string("zero\0", 5)}) {
      Value from{depth, text};
      Value to{depth, ""};
      save_and_restore(
          from, to, [](Checkpoint& checkpoint, Value& value) { checkpoint.add("value", value); });
      EXPECT_EQ(to.text, text) << depth;
    }
  }
}

// With Adasum each rank's optimizer has a state of its own.
TEST_F(CheckpointState, OptimizerOfEachRank) {
  struct State {
    State()
        : weight(torch::ones({4}).set_requires_grad(true)),
          optimizer(std::vector<torch::Tensor>{weight}, torch::optim::SGDOptions(0.1).momentum(0.9),
                    DistributedOptimizerOptions().op(ReduceOp::Adasum)) {}
    void advance() {
      optimizer.zero_grad();
      (weight * weight * torch::arange(4) * (rank() + 1)).sum().backward();
      optimizer.step();
    }
    torch::Tensor weight;
    DistributedOptimizer<torch::optim::SGD> optimizer;
  };
  State from;
  State to;
  for (int i = 0; i < 3; ++i) from.advance();
  save_and_restore(from, to, [](Checkpoint& checkpoint, State& state) {
    checkpoint.add("weight", state.weight).add_per_rank("optimizer", state.optimizer);
  });
  for (int i = 0; i < 2; ++i) from.advance();
  for (int i = 0; i < 2; ++i) to.advance();
  EXPECT_TRUE(torch::equal(from.weight, to.weight));
}

// Two names of one parameter, which the optimizer gets twice.
struct Tied : torch::nn::Module {
  explicit Tied(bool tied)
      : in(register_module("in", torch::nn::Linear(3, 3))),
        out(register_module("out", tied ? in : torch::nn::Linear(3, 3))),
        optimizer(*this, torch::optim::AdamOptions(0.1)) {}
  void advance() {
    optimizer.zero_grad();
    out(in(torch::eye(3))).sin().sum().backward();
    optimizer.step();
  }
  void add_to(Checkpoint& checkpoint) {
    checkpoint.add("model", *this).add("optimizer", optimizer);
  }
  torch::nn::Linear in, out;
  DistributedOptimizer<torch::optim::Adam> optimizer;
};

// Returns the names in the folder's one checkpoint, without random states.
std::vector<std::string> tensors_in(const std::string& folder) {
  checkpoint::FileSystem& files = checkpoint::system_files();
  checkpoint::Reader reader(files, folder + "/" + files.list(folder).at(0));
  std::vector<std::string> names;
  for (const auto& entry : reader.table().tensors)
    if (!entry.name.starts_with("random/")) names.push_back(entry.name);
  return names;
}

TEST_F(CheckpointState, ATiedParameterIsSavedOnceAndStaysTied) {
  const SharedFolder folder;
  Tied from(true);
  broadcast_parameters(from);
  for (int i = 0; i < 3; ++i) from.advance();
  {
    Checkpoint checkpoint(folder.path());
    from.add_to(checkpoint);
    checkpoint.save(1);
  }
  if (rank() == 0) {
    EXPECT_THAT(tensors_in(folder.path()),
                UnorderedElementsAre(
                    "model/in.weight", "model/in.bias", "optimizer/state/in.weight/exp_avg",
                    "optimizer/state/in.weight/exp_avg_sq", "optimizer/state/in.bias/exp_avg",
                    "optimizer/state/in.bias/exp_avg_sq"));
  }

  Tied to(true);
  Tied untied(false);
  for (Tied* one : {&to, &untied}) {
    Checkpoint checkpoint(folder.path());
    checkpoint.add("model", *one);
    if (one == &to) checkpoint.add("optimizer", one->optimizer);
    ASSERT_TRUE(checkpoint.restore());
  }
  EXPECT_TRUE(torch::equal(untied.out->weight, from.in->weight));
  EXPECT_TRUE(torch::equal(untied.in->bias, from.in->bias));
  for (int i = 0; i < 2; ++i) {
    from.advance();
    to.advance();
    EXPECT_TRUE(torch::equal(to.in->weight, from.in->weight)) << "step " << i;
    EXPECT_TRUE(to.out->weight.is_same(to.in->weight));
  }
}

// A file in which the two names have a tensor each, and one that knows the second name alone.
TEST_F(CheckpointState, ATiedParameterFromAnotherProgram) {
  Tied untied(false);
  broadcast_parameters(untied);
  Tied tied(true);
  save_and_restore<torch::nn::Module>(
      untied, tied,
      [](Checkpoint& checkpoint, torch::nn::Module& module) { checkpoint.add("model", module); });
  EXPECT_TRUE(torch::equal(tied.in->weight, untied.in->weight));

  struct Second : torch::nn::Module {
    torch::nn::Linear out = register_module("out", torch::nn::Linear(3, 3));
  } second;
  broadcast_parameters(second);
  save_and_restore<torch::nn::Module>(
      second, tied,
      [](Checkpoint& checkpoint, torch::nn::Module& module) { checkpoint.add("model", module); });
  EXPECT_TRUE(torch::equal(tied.in->weight, second.out->weight));
}

template <class Base, class BaseOptions>
struct ComplexTraining {
  explicit ComplexTraining(double first)
      : weight(torch::arange(4).add(first).to(at::kComplexDouble).set_requires_grad(true)),
        optimizer(std::vector<torch::Tensor>{weight}, BaseOptions(0.1)) {}
  void advance() {
    optimizer.zero_grad();
    const auto target =
        torch::complex(torch::ones({4}, at::kDouble), torch::arange(4).to(at::kDouble));
    (weight - target).abs().pow(2).sum().backward();
    optimizer.step();
  }
  torch::Tensor weight;
  DistributedOptimizer<Base> optimizer;
};

template <class Training>
struct ComplexState : CheckpointState {};
using ComplexTrainings =
    testing::Types<ComplexTraining<torch::optim::SGD, torch::optim::SGDOptions>,
                   ComplexTraining<torch::optim::Adam, torch::optim::AdamOptions>,
                   ComplexTraining<torch::optim::AdamW, torch::optim::AdamWOptions>,
                   ComplexTraining<torch::optim::RMSprop, torch::optim::RMSpropOptions>,
                   ComplexTraining<optim::Adadelta, optim::AdadeltaOptions>,
                   ComplexTraining<optim::Adamax, optim::AdamaxOptions>,
                   ComplexTraining<optim::ASGD, optim::ASGDOptions>,
                   ComplexTraining<optim::NAdam, optim::NAdamOptions>,
                   ComplexTraining<optim::RAdam, optim::RAdamOptions>,
                   ComplexTraining<optim::LAMB, optim::LAMBOptions>,
                   ComplexTraining<optim::LARS, optim::LARSOptions>>;
TYPED_TEST_SUITE(ComplexState, ComplexTrainings);

TYPED_TEST(ComplexState, OfAnOptimizerIsRestored) {
  TypeParam from(3);
  TypeParam to(7);
  for (int i = 0; i < 3; ++i) from.advance();
  this->save_and_restore(from, to, [](Checkpoint& checkpoint, TypeParam& state) {
    checkpoint.add("weight", state.weight).add("optimizer", state.optimizer);
  });
  EXPECT_TRUE(torch::equal(from.weight, to.weight));
  EXPECT_EQ(from.optimizer.state().size(), to.optimizer.state().size());
  for (int i = 0; i < 3; ++i) {
    from.advance();
    to.advance();
    EXPECT_TRUE(torch::equal(from.weight, to.weight)) << "step " << i;
  }
}

// A rank's first step has not been made: nothing is to be restored, and nothing is wrong.
TEST_F(CheckpointState, OptimizerThatHasNotStepped) {
  const MakeOptimizer adam = distributed<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  Training from(adam, 1);
  Training to(adam, 2);
  to.advance(3);
  save_and_restore(from, to,
                   [](Checkpoint& checkpoint, Training& state) { state.add_to(checkpoint); });
  EXPECT_TRUE(to.optimizer->state().empty());
  EXPECT_EQ(to.step, 0);
  for (Training* one : {&from, &to}) {
    torch::manual_seed(7);  // dropout's
    one->advance(5);
  }
  EXPECT_EQ(to.step, from.step);
  const auto expected = from.net->parameters();
  const auto found = to.net->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
}

TEST_F(CheckpointState, NewestIsTakenOldOnesGo) {
  const SharedFolder folder;
  std::int64_t number = 0;
  {
    Checkpoint checkpoint(folder.path(), CheckpointOptions().keep_last(2).keep_every(3));
    checkpoint.add("number", number);
    for (number = 1; number <= 8; ++number) EXPECT_TRUE(checkpoint.save(number));
    checkpoint.wait();
    EXPECT_EQ(checkpoint.metrics().saved, 8);
    if (rank() == 0) {
      EXPECT_GT(checkpoint.metrics().written_bytes, 5000);
    }
    EXPECT_GT(checkpoint.metrics().stall_seconds, 0);
  }
  barrier();
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename());
  EXPECT_THAT(names, ElementsAre("checkpoint-000000003.h5", "checkpoint-000000006.h5",
                                 "checkpoint-000000007.h5", "checkpoint-000000008.h5"));
  Checkpoint checkpoint(folder.path());
  checkpoint.add("number", number);
  const auto newest = checkpoint.restore();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 8);
  EXPECT_EQ(number, 8);
  const auto older = checkpoint.restore(RestoreOptions().path(folder / "checkpoint-000000003.h5"));
  ASSERT_TRUE(older);
  EXPECT_EQ(older->step, 3);
  EXPECT_EQ(number, 3);
}

using ModuleForms = WithKolo;

// Saved by one of its forms, a module is restored by any other.
TEST_F(ModuleForms, ModulesAreTakenInEveryForm) {
  const SharedFolder folder;
  torch::nn::Linear net(2, 3);
  broadcast_parameters(net);
  const std::shared_ptr<torch::nn::LinearImpl> pointer = torch::nn::Linear(2, 3).ptr();
  torch::jit::Module script("net");
  script.register_parameter("weight", torch::zeros({3, 2}), false);
  script.register_buffer("bias", torch::zeros({3}));
  Checkpoint(folder.path()).add("net", net).save(1);
  Checkpoint(folder.path()).add("net", pointer).restore();
  EXPECT_TRUE(pointer->weight.equal(net->weight));
  Checkpoint(folder.path()).add("net", script).restore();
  EXPECT_TRUE(script.attr("weight").toTensor().equal(pointer->weight));
  EXPECT_TRUE(script.attr("bias").toTensor().equal(pointer->bias));
  script.attr("bias").toTensor().fill_(7);
  Checkpoint(folder.path()).add("net", script).save(2);
  Checkpoint(folder.path()).add("net", *net).restore();
  EXPECT_TRUE(net->bias.equal(torch::full({3}, 7.0F)));
  Checkpoint shared(folder.path());
  shared.add("net", net);
  net = nullptr;
  shared.restore();  // into what it shares with nobody any more
  std::shared_ptr<torch::nn::LinearImpl> none;
  Checkpoint checkpoint(folder.path());
  EXPECT_THROW(checkpoint.add("net", none), InvalidArgumentError);
}

}  // namespace
}  // namespace kolo::testing_support
