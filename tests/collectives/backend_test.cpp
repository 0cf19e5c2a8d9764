// Every backend must give the same results, whatever memory tensors lie in.
#include "collectives/backend.hpp"

#include <gmock/gmock.h>

#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "collectives/hierarchy/backend.hpp"
#include "collectives/local/transport.hpp"
#include "collectives/messages/backend.hpp"
#include "collectives/shm/backend.hpp"
#include "collectives/shm/exposure.hpp"

namespace kolo {
namespace {

// float32 values in the arena, or not.
class Floats {
 public:
  Floats(shm::Arena* arena, std::size_t count) : arena_(arena), count_(count) {
    const std::size_t bytes = std::max<std::size_t>(count, 1) * sizeof(float);
    if (arena_ != nullptr)
      shared_ = static_cast<float*>(arena_->allocate(std::max(bytes, shm::Arena::kSmallest)));
    if (shared_ == nullptr) private_.resize(count + 1);
  }
  ~Floats() {
    if (shared_ != nullptr) arena_->free(shared_);
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  float* data() { return shared_ != nullptr ? shared_ : private_.data(); }
  float& operator[](std::size_t i) { return data()[i]; }
  std::size_t count() const { return count_; }

 private:
  shm::Arena* const arena_;
  const std::size_t count_;
  float* shared_ = nullptr;
  std::vector<float> private_;
};

enum class Memory { kShared, kPrivate, kMixed };

// One rank: its backend, and the memory that a test wants its tensors in.
struct Rank {
  Backend& backend;
  shm::Arena* arena;  // null: memory of its own
  int own = backend.rank();
  int all = backend.size();
  int rank() const { return own; }
  int size() const { return all; }
};

// Of very many elements: in a loop that costs a sanitizer little.
template <typename Values>
void fill(float* data, std::size_t count, const Values& values) {
  for (std::size_t i = 0; i < count; ++i) data[i] = values(i);
}
template <typename Values>
void expect_values(const float* data, std::size_t count, const Values& values) {
  std::size_t i = 0;
  while (i < count && data[i] == values(i)) ++i;
  if (i < count) ADD_FAILURE() << data[i] << " is not " << values(i) << ", element " << i;
}

void finish(Work& work) {
  Status status = work.start();
  while (status.is_ok()) {
    const Progress progress = work.step(status);
    if (progress == Progress::kDone) return;
    if (progress == Progress::kWaiting) std::this_thread::yield();
  }
  FAIL() << status.message();
}

struct World {
  std::string name;
  std::vector<int> nodes;  // of each rank; empty: no memory is shared
  Memory memory;
  // Of allreduce over messages below 1 KiB, and from there on.
  AllreduceAlgorithm small = AllreduceAlgorithm::kRecursiveDoubling;
  AllreduceAlgorithm large = AllreduceAlgorithm::kRing;
};

void PrintTo(const World& world, std::ostream* out) {
  *out << world.name;
}

// The nodes of several ranks, by rank; null for one that is alone.
std::vector<std::shared_ptr<shm::Node>> make_nodes(const std::vector<int>& numbers) {
  std::vector<std::shared_ptr<shm::Node>> nodes(numbers.size());
  for (const int number : std::set<int>(numbers.begin(), numbers.end())) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
      if (numbers[rank] == number) ranks.push_back(static_cast<int>(rank));
    }
    if (ranks.size() == 1) continue;
    const auto made = shm::make_local_nodes(ranks, 256 << 20);
    for (std::size_t i = 0; i < ranks.size(); ++i)
      nodes[static_cast<std::size_t>(ranks[i])] = made[i];
  }
  return nodes;
}

// As a group makes its own.
std::unique_ptr<Backend> make_backend(Transport& transport, const std::shared_ptr<shm::Node>& node,
                                      const std::vector<int>& nodes, AllreduceAlgorithm small,
                                      AllreduceAlgorithm large) {
  Tuning tuning;
  tuning.chunk_bytes = 4096;
  tuning.allreduce.groups = {{2, {{0, small}, {1024, large}}}};
  auto messages = make_message_backend(transport, 2, tuning);
  if (nodes.empty() || nodes.size() == 1) return messages;
  const auto hierarchy = find_hierarchy(nodes, transport.rank());
  if (!hierarchy && node == nullptr) return messages;
  if (!hierarchy)
    return shm::make_backend(node, *node->find(node->ranks()), 3, 7, std::move(messages));
  std::unique_ptr<Backend> local;
  if (node != nullptr)
    local = shm::make_backend(node, *node->find(hierarchy->local), 3, 7, nullptr);
  return make_hierarchical_backend(*hierarchy, transport, 2, tuning, std::move(local),
                                   std::move(messages));
}

void on_all_ranks(const World& world, int size, const std::function<void(Rank&)>& program) {
  auto transports = make_local_transports(size);
  std::vector<int> numbers = world.nodes;
  if (!numbers.empty()) numbers.resize(static_cast<std::size_t>(size));
  std::vector<std::shared_ptr<shm::Node>> nodes = make_nodes(numbers);
  nodes.resize(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const std::shared_ptr<shm::Node>& node = nodes[static_cast<std::size_t>(rank)];
      const auto backend = make_backend(*transports[rank], node, numbers, world.small, world.large);
      const bool in_arena =
          world.memory == Memory::kShared || (world.memory == Memory::kMixed && rank % 2 == 0);
      Rank me{*backend, node != nullptr && in_arena ? &node->arena() : nullptr};
      program(me);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr std::size_t kPiece = shm::Exposure::kPiece / sizeof(float);
// Among them: what just fits a line's room, a piece, and more pieces than a staging buffer holds.
constexpr std::size_t kCounts[] = {0, 1, 3, 1024, 1025, 9001, kPiece, kPiece + 1, 6 * kPiece + 17};

float value(int rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 31 + i * 7) % 97);
}
float sum(int size, std::size_t i) {
  float all = 0;
  for (int rank = 0; rank < size; ++rank) all += value(rank, i);
  return all;
}

void allreduce(Rank& me) {
  std::uint64_t sequence = 0;
  for (const std::size_t count : kCounts) {
    Floats data(me.arena, count);
    fill(data.data(), count, [&](std::size_t i) { return value(me.rank(), i); });
    const Reduction twice{DType::kFloat32, ReduceOp::Sum, 1, 2.0};
    finish(*me.backend.make({sequence++}, collective::Allreduce{data.data(), count, twice}));
    expect_values(data.data(), count, [&](std::size_t i) { return 2 * sum(me.size(), i); });
  }
}

// More than goes between nodes at a time; rounded as on any other backend, and the same everywhere.
void allreduce_of_much(Rank& me) {
  const std::size_t count = (10 << 20) / sizeof(float) + 5;
  Floats data(me.arena, count);
  fill(data.data(), count, [&](std::size_t i) { return value(me.rank(), i); });
  finish(*me.backend.make(
      {0}, collective::Allreduce{data.data(), count, {DType::kFloat32, ReduceOp::Sum, 2}}));
  expect_values(data.data(), count, [&](std::size_t i) { return sum(me.size(), i) / 2; });
}

// Not aligned to anything but an element.
void allreduce_of_a_view(Rank& me) {
  Floats data(me.arena, 3 * kPiece);
  for (std::size_t i = 0; i < data.count(); ++i) data[i] = value(me.rank(), i);
  const std::size_t begin = 1 + static_cast<std::size_t>(me.rank());
  finish(*me.backend.make({0}, collective::Allreduce{data.data() + begin, 2 * kPiece, {}}));
  expect_values(data.data(), data.count(), [&](std::size_t i) {
    if (i < begin || i >= begin + 2 * kPiece) return value(me.rank(), i);
    float expected = 0;
    for (int rank = 0; rank < me.size(); ++rank)
      expected += value(rank, i - begin + 1 + static_cast<std::size_t>(rank));
    return expected;
  });
}

void broadcast(Rank& me) {
  std::uint64_t sequence = 0;
  for (const std::size_t count : kCounts) {
    const int root = static_cast<int>(count) % me.size();
    Floats data(me.arena, count);
    fill(data.data(), count, [&](std::size_t i) { return value(me.rank(), i); });
    finish(*me.backend.make({sequence++},
                            collective::Broadcast{data.data(), count * sizeof(float), root}));
    expect_values(data.data(), count, [&](std::size_t i) { return value(root, i); });
  }
}

// Rank r gives count + 5 r elements, the last one none.
void allgather(Rank& me) {
  std::uint64_t sequence = 0;
  for (const std::size_t count : kCounts) {
    std::vector<std::size_t> cuts = {0};
    for (int rank = 0; rank < me.size(); ++rank) {
      const bool none = rank == me.size() - 1;
      cuts.push_back(cuts.back() + (none ? 0 : count + 5 * static_cast<std::size_t>(rank)));
    }
    Floats data(me.arena, cuts.back());
    const auto mine = static_cast<std::size_t>(me.rank());
    fill(data.data() + cuts[mine], cuts[mine + 1] - cuts[mine],
         [&](std::size_t i) { return value(me.rank(), cuts[mine] + i); });
    std::vector<std::size_t> bytes;
    for (const std::size_t cut : cuts) bytes.push_back(cut * sizeof(float));
    finish(*me.backend.make({sequence++}, collective::Allgather{data.data(), bytes}));
    for (std::size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
      expect_values(data.data() + cuts[rank], cuts[rank + 1] - cuts[rank],
                    [&](std::size_t i) { return value(static_cast<int>(rank), cuts[rank] + i); });
    }
  }
}

// Rank r gives rank s count + 3 r + s elements. What it has for itself, a few, is not touched.
void alltoall(Rank& me) {
  std::uint64_t sequence = 0;
  const auto elements = [](std::size_t count, int from, int to) {
    return from == to ? 5
                      : count + 3 * static_cast<std::size_t>(from) + static_cast<std::size_t>(to);
  };
  for (const std::size_t count : kCounts) {
    std::vector<std::size_t> given = {0};
    std::vector<std::size_t> taken = {0};
    for (int rank = 0; rank < me.size(); ++rank) {
      given.push_back(given.back() + elements(count, me.rank(), rank) * sizeof(float));
      taken.push_back(taken.back() + elements(count, rank, me.rank()) * sizeof(float));
    }
    Floats from(me.arena, given.back() / sizeof(float));
    Floats to(me.arena, taken.back() / sizeof(float));
    for (int rank = 0; rank < me.size(); ++rank) {
      const std::size_t begin = given[static_cast<std::size_t>(rank)] / sizeof(float);
      fill(from.data() + begin, elements(count, me.rank(), rank),
           [&](std::size_t i) { return value(me.rank() + 10 * rank, i); });
    }
    const std::size_t own = taken[static_cast<std::size_t>(me.rank())] / sizeof(float);
    for (std::size_t i = 0; i < elements(count, me.rank(), me.rank()); ++i) to[own + i] = -1;
    finish(*me.backend.make({sequence++},
                            collective::Alltoall{{from.data(), given}, {to.data(), taken}}));
    for (int rank = 0; rank < me.size(); ++rank) {
      const std::size_t begin = taken[static_cast<std::size_t>(rank)] / sizeof(float);
      expect_values(to.data() + begin, elements(count, rank, me.rank()), [&](std::size_t i) {
        return rank == me.rank() ? -1 : value(rank + 10 * me.rank(), i);
      });
    }
  }
}

void reducescatter(Rank& me) {
  std::uint64_t sequence = 0;
  for (const std::size_t count : kCounts) {
    std::vector<std::size_t> cuts = {0};
    for (int rank = 0; rank < me.size(); ++rank)
      cuts.push_back(count * static_cast<std::size_t>(rank + 1) /
                     static_cast<std::size_t>(me.size()));
    Floats data(me.arena, count);
    fill(data.data(), count, [&](std::size_t i) { return value(me.rank(), i); });
    finish(*me.backend.make({sequence++}, collective::Reducescatter{data.data(), cuts, {}}));
    const auto mine = static_cast<std::size_t>(me.rank());
    expect_values(data.data() + cuts[mine], cuts[mine + 1] - cuts[mine],
                  [&](std::size_t i) { return sum(me.size(), cuts[mine] + i); });
  }
}

// The data stay as they are.
void reducescatter_with_a_result(Rank& me) {
  if (!me.backend.takes_result()) return;
  std::uint64_t sequence = 0;
  for (const std::size_t count : kCounts) {
    std::vector<std::size_t> cuts = {0};
    for (int rank = 0; rank < me.size(); ++rank)
      cuts.push_back(count * static_cast<std::size_t>(rank + 1) /
                     static_cast<std::size_t>(me.size()));
    const auto mine = static_cast<std::size_t>(me.rank());
    Floats data(me.arena, count);
    Floats result(me.arena, cuts[mine + 1] - cuts[mine]);
    fill(data.data(), count, [&](std::size_t i) { return value(me.rank(), i); });
    finish(*me.backend.make({sequence++},
                            collective::Reducescatter{data.data(), cuts, {}, result.data()}));
    expect_values(result.data(), cuts[mine + 1] - cuts[mine],
                  [&](std::size_t i) { return sum(me.size(), cuts[mine] + i); });
    expect_values(data.data(), count, [&](std::size_t i) { return value(me.rank(), i); });
  }
}

void transfer(Rank& me) {
  if (me.size() == 1) return;
  std::uint64_t sequence = 0;
  for (const std::size_t count : kCounts) {
    const int source = static_cast<int>(sequence) % me.size();
    const int destination = (source + 1) % me.size();
    const std::uint64_t mine = sequence++;
    if (me.rank() != source && me.rank() != destination) continue;
    Floats data(me.arena, count);
    fill(data.data(), count, [&](std::size_t i) { return value(me.rank(), i); });
    finish(*me.backend.make(
        {mine}, collective::Transfer{data.data(), count * sizeof(float), source, destination}));
    expect_values(data.data(), count, [&](std::size_t i) { return value(source, i); });
  }
}

// Every operator and dtype once, small and large.
void operators(Rank& me) {
  std::uint64_t sequence = 0;
  for (const ReduceOp op :
       {ReduceOp::Min, ReduceOp::Max, ReduceOp::Product, ReduceOp::Average, ReduceOp::Adasum}) {
    for (const std::size_t count : {std::size_t{10}, std::size_t{5000}}) {
      Floats data(me.arena, count);
      for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(me.rank() + 1);
      const int divisor = op == ReduceOp::Average ? me.size() : 1;
      finish(*me.backend.make(
          {sequence++}, collective::Allreduce{data.data(), count, {DType::kFloat32, op, divisor}}));
      float expected = 1;
      const auto n = static_cast<float>(me.size());
      if (op == ReduceOp::Max) expected = n;
      if (op == ReduceOp::Average || op == ReduceOp::Adasum) expected = (n + 1) / 2;
      for (float factor = 2; op == ReduceOp::Product && factor <= n; ++factor) expected *= factor;
      if (op == ReduceOp::Adasum && (me.size() & (me.size() - 1)) != 0) continue;
      for (std::size_t i = 0; i < count; ++i) ASSERT_FLOAT_EQ(data[i], expected);
    }
  }
}

// Hundreds of collectives, many at once, of all kinds and sizes; each rank steps them in an order
// of its own. The channels are used several times.
void many_at_once(Rank& me) {
  constexpr std::size_t kAll = 700;
  constexpr std::size_t kAtOnce = 60;
  std::mt19937 same(5);  // the same numbers on all ranks
  std::mt19937 own(static_cast<unsigned>(me.rank()));
  struct Flying {
    std::uint64_t sequence = 0;
    std::unique_ptr<Work> work;
    std::unique_ptr<Floats> data;
    std::function<void(Floats&)> check;
  };
  std::deque<Flying> flying;
  const auto step_some = [&](std::size_t keep, std::uint64_t next) {
    while (flying.size() > keep ||
           (!flying.empty() && next - flying.front().sequence >= Backend::kWindow)) {
      const std::size_t which = own() % flying.size();
      Status status;
      const Progress progress = flying[which].work->step(status);
      ASSERT_NE(progress, Progress::kFailed) << status.message();
      if (progress == Progress::kWaiting) std::this_thread::yield();
      if (progress != Progress::kDone) continue;
      flying[which].check(*flying[which].data);
      flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(which));
    }
  };
  for (std::uint64_t sequence = 0; sequence < kAll; ++sequence) {
    const std::size_t count = same() % 4 == 0 ? same() % 40'000 : same() % 500;
    const int root = static_cast<int>(same() % static_cast<unsigned>(me.size()));
    Flying one;
    one.sequence = sequence;
    one.data = std::make_unique<Floats>(me.arena, count);
    fill(one.data->data(), count, [&](std::size_t i) { return value(me.rank(), i + sequence); });
    if (same() % 3 == 0) {
      one.work = me.backend.make(
          {sequence}, collective::Broadcast{one.data->data(), count * sizeof(float), root});
      one.check = [=](Floats& data) {
        expect_values(data.data(), count, [=](std::size_t i) { return value(root, i + sequence); });
      };
    } else {
      one.work = me.backend.make({sequence}, collective::Allreduce{one.data->data(), count, {}});
      one.check = [=, size = me.size()](Floats& data) {
        expect_values(data.data(), count, [=](std::size_t i) { return sum(size, i + sequence); });
      };
    }
    ASSERT_TRUE(one.work->start().is_ok());
    flying.push_back(std::move(one));
    step_some(kAtOnce, sequence + 1);
  }
  step_some(0, kAll);
}

// Several collectives of one decision follow each other on a channel.
void parts(Rank& me) {
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) {
    for (std::uint32_t part = 0; part < 600; ++part) {
      float one[] = {value(me.rank(), part)};
      finish(*me.backend.make({sequence * shm::Board::kChannels, part},
                              collective::Allreduce{one, 1, {}}));
      ASSERT_EQ(one[0], sum(me.size(), part));
    }
  }
}

// The same of collectives that a rank leaves while others still read what it gave, because that
// lies in the room. A rank overwrites its own at once.
void small_parts_in_private_memory(Rank& me) {
  const auto ranks = static_cast<std::size_t>(me.size());
  std::vector<std::size_t> cuts;
  for (std::size_t rank = 0; rank <= ranks; ++rank) cuts.push_back(rank * 3);
  std::vector<std::size_t> bytes;
  for (const std::size_t cut : cuts) bytes.push_back(cut * sizeof(float));
  const auto mine = static_cast<std::size_t>(me.rank()) * 3;
  for (std::uint32_t part = 0; part < 400; part += 4) {
    std::vector<float> data(3 * ranks);
    std::vector<float> other(3 * ranks);
    const auto of = [&](int rank, std::size_t i) { return value(rank, i + part); };
    const auto restart = [&](int shift) {
      fill(data.data(), data.size(), [&](std::size_t i) { return of(me.rank() + shift, i); });
    };
    restart(0);
    finish(*me.backend.make({0, part}, collective::Allgather{data.data(), bytes}));
    for (std::size_t i = 0; i < data.size(); ++i)
      ASSERT_EQ(data[i], of(static_cast<int>(i / 3), i));
    restart(100);
    const int root = static_cast<int>(part / 4) % me.size();
    finish(*me.backend.make({0, part + 1}, collective::Broadcast{data.data(), bytes.back(), root}));
    for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], of(root + 100, i));
    restart(200);
    finish(*me.backend.make({0, part + 2},
                            collective::Alltoall{{data.data(), bytes}, {other.data(), bytes}}));
    for (std::size_t i = 0; i < other.size(); ++i) {
      const bool is_own = i / 3 == mine / 3;  // not copied
      const float wanted = is_own ? 0 : of(static_cast<int>(i / 3) + 200, mine + i % 3);
      ASSERT_EQ(other[i], wanted);
    }
    restart(300);
    finish(*me.backend.make({0, part + 3}, collective::Reducescatter{data.data(), cuts, {}}));
    for (std::size_t i = mine; i < mine + 3; ++i) {
      float wanted = 0;
      for (int rank = 0; rank < me.size(); ++rank) wanted += of(rank + 300, i);
      ASSERT_EQ(data[i], wanted);
    }
    restart(400);
  }
}

// Its offsets and data just fit the room, or just do not.
void alltoall_as_large_as_the_room(Rank& me) {
  const auto ranks = static_cast<std::size_t>(me.size());
  const auto rank = static_cast<std::size_t>(me.rank());
  const std::size_t room = shm::Board::kRoom - (ranks + 1) * sizeof(std::size_t);
  std::uint64_t sequence = 0;
  for (const std::size_t all : {room - 1, room, room + 1}) {
    std::vector<std::size_t> cuts = {0};  // all but the last rank get one byte
    for (std::size_t to = 1; to < ranks; ++to) cuts.push_back(to);
    cuts.push_back(all);
    const std::size_t each = rank + 1 < ranks ? 1 : all - (ranks - 1);
    std::vector<std::size_t> taken;
    for (std::size_t from = 0; from <= ranks; ++from) taken.push_back(from * each);
    std::vector<unsigned char> given(all, static_cast<unsigned char>(rank + 1));
    std::vector<unsigned char> received(taken.back());
    finish(*me.backend.make({sequence++},
                            collective::Alltoall{{given.data(), cuts}, {received.data(), taken}}));
    for (std::size_t i = 0; i < received.size(); ++i)
      ASSERT_EQ(received[i], i / each == rank ? 0 : i / each + 1);
  }
}

class Backends : public testing::TestWithParam<World> {
 protected:
  static void check(const std::function<void(Rank&)>& program) {
    for (const int size : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::to_string(size) + " ranks");
      on_all_ranks(GetParam(), size, program);
    }
  }
};

TEST_P(Backends, Allreduce) {
  check(allreduce);
}
TEST_P(Backends, AllreduceOfMuch) {
  check(allreduce_of_much);
}
TEST_P(Backends, AllreduceOfAView) {
  check(allreduce_of_a_view);
}
TEST_P(Backends, Broadcast) {
  check(broadcast);
}
TEST_P(Backends, Allgather) {
  check(allgather);
}
TEST_P(Backends, Alltoall) {
  check(alltoall);
}
TEST_P(Backends, Reducescatter) {
  check(reducescatter);
  check(reducescatter_with_a_result);
}
TEST_P(Backends, Transfer) {
  check(transfer);
}
TEST_P(Backends, Operators) {
  check(operators);
}
TEST_P(Backends, ManyAtOnce) {
  check(many_at_once);
}
TEST_P(Backends, AlltoallAsLargeAsTheRoom) {
  check(alltoall_as_large_as_the_room);
}
TEST_P(Backends, Parts) {
  check(parts);
  check(small_parts_in_private_memory);
}

INSTANTIATE_TEST_SUITE_P(All, Backends,
                         testing::Values(World{"Messages", {}, Memory::kPrivate},
                                         World{"Tree",
                                               {},
                                               Memory::kPrivate,
                                               AllreduceAlgorithm::kTree,
                                               AllreduceAlgorithm::kHalvingDoubling},
                                         World{"HalvingDoubling",
                                               {},
                                               Memory::kPrivate,
                                               AllreduceAlgorithm::kHalvingDoubling,
                                               AllreduceAlgorithm::kTree},
                                         World{"Arena", {0, 0, 0, 0}, Memory::kShared},
                                         World{"Private", {0, 0, 0, 0}, Memory::kPrivate},
                                         World{"Mixed", {0, 0, 0, 0}, Memory::kMixed},
                                         World{"TwoNodes", {0, 0, 1, 1}, Memory::kShared},
                                         World{"Strewn", {7, 3, 3, 7}, Memory::kMixed},
                                         World{"Uneven", {0, 1, 1, 1}, Memory::kMixed},
                                         World{"Uneven3", {1, 1, 0, 1}, Memory::kPrivate}),
                         [](const auto& world) { return world.param.name; });

TEST(Hierarchy, IsOfGroupsThatShareSomeMemory) {
  EXPECT_FALSE(find_hierarchy({5}, 0));
  EXPECT_FALSE(find_hierarchy({5, 5, 5}, 1)) << "one node";
  EXPECT_FALSE(find_hierarchy({4, 5, 6}, 1)) << "each rank alone";
  EXPECT_TRUE(find_hierarchy({4, 5, 4}, 1));
}

TEST(Hierarchy, AsManySlicesAsTheSmallestNodeHasRanks) {
  // Node 0 has ranks 0, 2, 5; node 9 has 1, 3; node 4 has 4, 6, 7.
  const std::vector<int> nodes = {0, 9, 0, 9, 4, 0, 4, 4};
  const auto of = [&](int rank) { return *find_hierarchy(nodes, rank); };
  EXPECT_EQ(of(2).local, (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(of(2).local_rank, 1);
  for (const int rank : {0, 1, 4}) EXPECT_EQ(of(rank).cross, (std::vector<int>{0, 4, 1})) << rank;
  for (const int rank : {2, 3, 6}) EXPECT_EQ(of(rank).cross, (std::vector<int>{2, 6, 3})) << rank;
  for (const int rank : {5, 7}) EXPECT_TRUE(of(rank).cross.empty()) << rank;
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(of(rank).slices, 2);
}

}  // namespace
}  // namespace kolo
