// Tensors that are spread over the ranks: whoever writes, and however they are cut when they are
// restored, in a job of any number of ranks, they are the same.
#include <kolo/mpi.h>

#include <filesystem>
#include <random>

#include "checkpoint/trained.hpp"
#include "shared_folder.hpp"
#include "torch_ops/fixture.hpp"

namespace kolo::testing_support {
namespace {

using Shape = std::vector<std::int64_t>;

torch::Tensor whole_tensor() {
  return torch::arange(700 * 900, torch::kFloat).view({700, 900}).cos();
}

// A rank's rows, columns or tile of the whole.
struct Cut {
  Shape start, extent;
};

std::vector<Cut> cuts(int ranks, int rank) {
  const auto border = [&](std::int64_t all, int which) { return all * which / ranks; };
  const std::int64_t rows = border(700, rank);
  const std::int64_t columns = border(900, rank);
  std::vector<Cut> all = {{{rows, 0}, {border(700, rank + 1) - rows, 900}},
                          {{0, columns}, {700, border(900, rank + 1) - columns}}};
  // Rank 0 has the upper left corner, the last one all below; those between the rest of the top.
  const bool is_last = rank + 1 == ranks;
  const std::int64_t height = is_last && ranks > 1 ? 699 : 1;
  if (ranks == 1)
    all.push_back({{0, 0}, {700, 900}});
  else if (is_last)
    all.push_back({{1, 0}, {height, 900}});
  else {
    const std::int64_t top = 900 * rank / (ranks - 1);
    all.push_back({{0, top}, {1, 900 * (rank + 1) / (ranks - 1) - top}});
  }
  return all;
}

torch::Tensor part_of(const torch::Tensor& tensor, const Cut& cut) {
  torch::Tensor part = tensor;
  for (std::size_t d = 0; d < cut.start.size(); ++d)
    part = part.narrow(static_cast<std::int64_t>(d), cut.start[d], cut.extent[d]);
  return part;
}

// Three tensors, cut along rows, columns and otherwise.
std::vector<torch::Tensor> add_parts(Checkpoint& checkpoint, bool has_values, int turn) {
  std::vector<torch::Tensor> parts;
  const std::vector<Cut> mine = cuts(size(), rank());
  for (int i = 0; i < 3; ++i) {
    const Cut& cut = mine[static_cast<std::size_t>((i + turn) % 3)];
    torch::Tensor part = part_of(whole_tensor() + i, cut);
    if (!has_values) part = torch::zeros_like(part);
    parts.push_back(part);
    checkpoint.add_part("whole" + std::to_string(i), part, {700, 900}, cut.start);
  }
  return parts;
}

struct Wanted {
  CheckpointWriters writers;
  bool asynchronous;
};

class Parts : public testing::TestWithParam<Wanted> {};

CheckpointOptions options() {
  const Wanted& wanted = Parts::GetParam();
  return CheckpointOptions().writers(wanted.writers).asynchronous(wanted.asynchronous);
}

TEST_P(Parts, SavedByAllRestoredByAny) {
  int world = 0;
  int me = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  kolo::init();
  auto folder = std::make_unique<SharedFolder>();
  const std::string path = folder->path();
  {
    torch::manual_seed(1000 + me);
    torch::Tensor mine = torch::full({3}, me);
    torch::Tensor same = whole_tensor();
    Checkpoint checkpoint(path, options());
    add_parts(checkpoint, true, 0);
    checkpoint.add_per_rank("mine", mine).add("same", same);
    EXPECT_TRUE(checkpoint.save(1));
    checkpoint.wait();
  }
  kolo::shutdown();

  for (int ranks = world; ranks >= 1; --ranks) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, me < ranks ? 0 : MPI_UNDEFINED, me, &comm);
    if (me < ranks) {
      kolo::init(comm);
      {
        torch::manual_seed(5);
        torch::Tensor mine = torch::full({3}, -1);
        torch::Tensor same = torch::zeros({700, 900});
        Checkpoint checkpoint(path, options());
        const auto parts = add_parts(checkpoint, false, ranks);
        checkpoint.add_per_rank("mine", mine).add("same", same);
        ASSERT_TRUE(checkpoint.restore());
        const std::vector<Cut> cut = cuts(ranks, me);
        for (std::size_t i = 0; i < 3; ++i)
          EXPECT_TRUE(
              torch::equal(parts[i], part_of(whole_tensor() + static_cast<int>(i),
                                             cut[(i + static_cast<std::size_t>(ranks)) % 3])))
              << "tensor " << i << ", rank " << me << " of " << ranks;
        EXPECT_TRUE(torch::equal(same, whole_tensor()));
        EXPECT_TRUE(torch::equal(mine, torch::full({3}, me)));
        const torch::Tensor next = torch::rand({4});
        torch::manual_seed(1000 + me);
        EXPECT_TRUE(torch::equal(next, torch::rand({4}))) << "random state of rank " << me;
      }
      kolo::shutdown();
      MPI_Comm_free(&comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // And what a single rank saves serves all.
  MPI_Comm self = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, me == 0 ? 0 : MPI_UNDEFINED, me, &self);
  if (me == 0) {
    kolo::init(self);
    {
      torch::manual_seed(1000);
      torch::Tensor mine = torch::full({3}, 0);
      torch::Tensor same = whole_tensor();
      Checkpoint checkpoint(path, options());
      add_parts(checkpoint, true, 1);
      checkpoint.add_per_rank("mine", mine).add("same", same);
      checkpoint.save(2);
      checkpoint.wait();
    }
    kolo::shutdown();
    MPI_Comm_free(&self);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  kolo::init();
  {
    torch::manual_seed(77);
    torch::Tensor mine = torch::full({3}, -1);
    torch::Tensor same = torch::zeros({700, 900});
    Checkpoint checkpoint(path, options());
    const auto parts = add_parts(checkpoint, false, 2);
    checkpoint.add_per_rank("mine", mine).add("same", same);
    const auto restored = checkpoint.restore();
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->step, 2);
    const std::vector<Cut> cut = cuts(world, me);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(
          torch::equal(parts[i], part_of(whole_tensor() + static_cast<int>(i), cut[(i + 2) % 3])));
    // Ranks that were not there keep what they have.
    EXPECT_TRUE(torch::equal(mine, torch::full({3}, me == 0 ? 0 : -1)));
    const torch::Tensor next = torch::rand({4});
    torch::manual_seed(me == 0 ? 1000 : 77);
    EXPECT_TRUE(torch::equal(next, torch::rand({4})));
  }
  folder.reset();
  kolo::shutdown();
}

// A module with a large buffer, which each rank has changed. Its parameter is the same on all.
struct WithBuffer : torch::nn::Module {
  explicit WithBuffer(int value) {
    weight = register_parameter("weight", whole_tensor());
    buffer = register_buffer("buffer", torch::full({300, 1000}, value));
  }
  torch::Tensor weight, buffer;
};

// A class of the program's own with a large tensor.
struct WithArchive {
  torch::Tensor tensor;
  void save(torch::serialize::OutputArchive& archive) const { archive.write("large", tensor); }
  void load(torch::serialize::InputArchive& archive) { archive.read("large", tensor); }
};

TEST_P(Parts, WhatDiffersIsRankZeros) {
  kolo::init();
  auto folder = std::make_unique<SharedFolder>();
  {
    WithBuffer model(rank());
    torch::Tensor tensor = torch::full({1000, 400}, rank());
    WithArchive archive{torch::full({500, 900}, rank())};
    Checkpoint checkpoint(folder->path(), options());
    checkpoint.add("model", model).add("tensor", tensor).add("archive", archive);
    EXPECT_TRUE(checkpoint.save(1));
    checkpoint.wait();
    model.buffer.fill_(-1);
    tensor.fill_(-1);
    archive.tensor = torch::full({500, 900}, -1);
    ASSERT_TRUE(checkpoint.restore());
    EXPECT_TRUE(torch::equal(model.weight, whole_tensor()));
    EXPECT_TRUE(torch::equal(model.buffer, torch::zeros({300, 1000})));
    EXPECT_TRUE(torch::equal(tensor, torch::zeros({1000, 400})));
    EXPECT_TRUE(torch::equal(archive.tensor, torch::zeros({500, 900})));
  }
  folder.reset();
  kolo::shutdown();
}

// Saved by one rank, restored by all: the others keep their optimizer's state, and have the
// learning rate of all.
TEST_P(Parts, RanksThatWereNotThereKeepTheirState) {
  int world = 0;
  int me = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  const auto stepped = [](double rate, int steps) {
    torch::Tensor weight = torch::ones({3}).set_requires_grad(true);
    auto optimizer = std::make_unique<torch::optim::SGD>(
        std::vector<torch::Tensor>{weight}, torch::optim::SGDOptions(rate).momentum(0.9));
    for (int i = 0; i < steps; ++i) {
      optimizer->zero_grad();
      (weight * weight).sum().backward();
      optimizer->step();
    }
    return optimizer;
  };
  const auto momentum = [](torch::optim::SGD& optimizer) {
    auto& state = *optimizer.state().begin()->second;
    return static_cast<torch::optim::SGDParamState&>(state).momentum_buffer();
  };
  kolo::init();
  auto folder = std::make_unique<SharedFolder>();
  const std::string path = folder->path();
  kolo::shutdown();
  MPI_Comm self = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, me == 0 ? 0 : MPI_UNDEFINED, me, &self);
  const auto saved = stepped(0.1, 2);
  if (me == 0) {
    kolo::init(self);
    {
      Checkpoint checkpoint(path, options().asynchronous(false));
      checkpoint.add_per_rank("optimizer", *saved);
      checkpoint.save(1);
    }
    kolo::shutdown();
    MPI_Comm_free(&self);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  kolo::init();
  {
    const auto own = stepped(0.3, 5);
    const torch::Tensor before = momentum(*own).clone();
    Checkpoint checkpoint(path, options());
    checkpoint.add_per_rank("optimizer", *own);
    ASSERT_TRUE(checkpoint.restore());
    EXPECT_TRUE(torch::equal(momentum(*own), me == 0 ? momentum(*saved) : before));
    EXPECT_EQ(own->param_groups()[0].options().get_lr(), 0.1);
  }
  folder.reset();
  kolo::shutdown();
}

// However many there are, and although all write at the same time.
TEST_P(Parts, SeveralAtOnceShareOneProcessSet) {
  kolo::init();
  {
    SharedFolder folder;
    const int first = add_process_set(ProcessSet().ranks()).id();
    std::vector<torch::Tensor> tensors;
    std::vector<std::unique_ptr<Checkpoint>> checkpoints;
    for (int i = 0; i < 5; ++i) {
      tensors.push_back(whole_tensor() + i);
      checkpoints.push_back(std::make_unique<Checkpoint>(
          folder.path(), options().name("number" + std::to_string(i))));
      checkpoints.back()->add("tensor", tensors.back());
    }
    EXPECT_LE(add_process_set(ProcessSet().ranks()).id(), first + 2);
    for (std::int64_t step = 1; step <= 10; ++step) {
      for (const torch::Tensor& tensor : tensors) tensor.add_(1);
      for (const auto& checkpoint : checkpoints) checkpoint->save(step);
    }
    for (const torch::Tensor& tensor : tensors) tensor.zero_();
    for (int i = 4; i >= 0; --i) {
      const auto which = static_cast<std::size_t>(i);
      ASSERT_TRUE(checkpoints[which]->restore());
      torch::Tensor expected = whole_tensor() + i;
      for (int step = 1; step <= 10; ++step) expected.add_(1);
      EXPECT_TRUE(torch::equal(tensors[which], expected));
    }
  }
  kolo::shutdown();
}

INSTANTIATE_TEST_SUITE_P(Writers, Parts,
                         testing::Values(Wanted{CheckpointWriters::RankZero, true},
                                         Wanted{CheckpointWriters::RankZero, false},
                                         Wanted{CheckpointWriters::AllRanks, true},
                                         Wanted{CheckpointWriters::AllRanks, false}),
                         [](const auto& one) {
                           return std::string(one.param.writers == CheckpointWriters::AllRanks
                                                  ? "All"
                                                  : "RankZero") +
                                  (one.param.asynchronous ? "Asynchronous" : "");
                         });

}  // namespace
}  // namespace kolo::testing_support
