// Random programs through whole engines, in the world and in a process set at the same time: what
// comes out must be right, whoever joins when.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/negotiation_programs.hpp"
#include "engine/engine_fixture.hpp"

namespace kolo {
namespace {

// What a rank gives: one value in all elements; rows of gathers, for each rank or for one.
float value_of(int rank, std::size_t use) {
  return static_cast<float>(1 + 3 * rank + static_cast<int>(use % 5));
}
std::int64_t rows_of(int rank, std::size_t use) {
  return static_cast<std::int64_t>((static_cast<std::size_t>(rank) + use) % 3);
}
std::int64_t split_of(int rank, int to, std::size_t use) {
  return rows_of(rank + 2 * to, use);
}

// Elements of float32 or int32; others are not looked at.
float element(const std::vector<std::byte>& memory, DType dtype, std::size_t at) {
  if (dtype == DType::kFloat32) return reinterpret_cast<const float*>(memory.data())[at];
  return static_cast<float>(reinterpret_cast<const std::int32_t*>(memory.data())[at]);
}
void fill(std::vector<std::byte>& memory, DType dtype, float value) {
  for (std::size_t i = 0; i < memory.size() / size_of(dtype); ++i) {
    if (dtype == DType::kFloat32) reinterpret_cast<float*>(memory.data())[i] = value;
    if (dtype == DType::kInt32)
      reinterpret_cast<std::int32_t*>(memory.data())[i] = static_cast<std::int32_t>(value);
  }
}

// Plays a rank's program in a process set. Ranks of programs are those in the set.
class Player {
 public:
  Player(Engine& engine, int process_set, std::vector<int> ranks, int rank,
         const Programs& programs)
      : engine_(engine),
        process_set_(process_set),
        ranks_(std::move(ranks)),
        rank_(rank),
        programs_(programs) {}

  // Gives who was last in each join.
  std::vector<int> play() {
    for (const Act& act : programs_.acts[rank_]) {
      if (testing::Test::HasFailure()) return lasts_;
      if (act.kind == Act::Kind::kSubmit) submit(act);
      if (act.kind == Act::Kind::kJoin) submit_join();
      if (act.kind == Act::Kind::kWait) wait(act.name);
      const auto polled = in_flight_.find(act.name);
      if (act.kind == Act::Kind::kPoll && polled != in_flight_.end())
        engine_.ready(polled->second.operation);
    }
    for (const auto& [name, ends] : ends_) {
      std::string expected = programs_.ends[rank_].at(name);
      std::erase(expected, '~');
      EXPECT_EQ(ends, expected) << name << " on rank " << rank_;
    }
    return lasts_;
  }

 private:
  struct Flying {
    std::shared_ptr<Operation> operation;
    Act act;
    std::vector<std::vector<std::byte>> given;  // and, but for gathers, received
    std::vector<std::vector<std::byte>> gathered;
    std::vector<std::vector<std::int64_t>> rows;
  };

  int size() const { return static_cast<int>(ranks_.size()); }

  std::shared_ptr<Operation> operation(const std::string& name, Descriptor descriptor) const {
    auto operation = std::make_shared<Operation>();
    operation->name = name_in(name);
    operation->process_set = process_set_;
    operation->descriptor = std::move(descriptor);
    return operation;
  }

  void submit_join() {
    Descriptor join;
    join.kind = OpKind::kJoin;
    in_flight_["join"].operation = operation("join", join);
    ASSERT_TRUE(engine_.submit(in_flight_["join"].operation).is_ok());
  }

  void submit(const Act& act) {
    Descriptor d = act.descriptor;
    if (d.kind == OpKind::kAddProcessSet) d.kind = OpKind::kAllreduce;  // sets would pile up
    d.root = ranks_[static_cast<std::size_t>(d.root)];
    d.destination = ranks_[static_cast<std::size_t>(d.destination)];
    Flying& flying = in_flight_[act.name];
    flying.act = act;
    flying.operation = operation(act.name, d);
    flying.operation->absent = act.absent;
    flying.operation->transient = act.transient;
    give(flying);
    ASSERT_TRUE(engine_.submit(flying.operation).is_ok());
  }

  void give(Flying& flying) {
    Operation& operation = *flying.operation;
    const Descriptor& d = operation.descriptor;
    std::int64_t rows = rows_of(rank_, flying.act.use);
    if (d.kind == OpKind::kAlltoall) {
      rows = 0;
      for (int to = 0; to < size(); ++to) {
        operation.splits.push_back(split_of(rank_, to, flying.act.use));
        rows += operation.splits.back();
      }
    }
    for (const TensorSpec& tensor : d.tensors) {
      flying.given.emplace_back(tensor.bytes() *
                                static_cast<std::size_t>(d.has_own_rows() ? rows : 1));
      fill(flying.given.back(), tensor.dtype, value_of(rank_, flying.act.use));
      operation.tensors.push_back({flying.given.back().data(), rows});
    }
    flying.gathered.resize(d.tensors.size());
    flying.rows.resize(d.tensors.size());
    flying.operation->make_result = [&flying](std::size_t index,
                                              const std::vector<std::int64_t>& from_each) -> void* {
      const TensorSpec& tensor = flying.operation->descriptor.tensors[index];
      const auto all = std::accumulate(from_each.begin(), from_each.end(), std::int64_t{0});
      flying.rows[index] = from_each;
      flying.gathered[index].resize(static_cast<std::size_t>(all) * tensor.bytes());
      return flying.gathered[index].data();
    };
  }

  void wait(const std::string& name) {
    const Flying& flying = in_flight_.at(name);
    const Status status = engine_.wait(flying.operation, std::chrono::seconds(60));
    ASSERT_TRUE(status.is_ok() || status.code() == StatusCode::kMismatch) << status.message();
    if (name == "join") {
      lasts_.push_back(flying.operation->number);
    } else {
      ends_[name] += status.is_ok() ? '+' : '-';
      if (status.is_ok() && !flying.operation->absent_everywhere()) check(flying);
    }
    in_flight_.erase(name);
  }

  void check(const Flying& flying) const {
    const Descriptor& d = flying.act.descriptor;
    for (std::size_t i = 0; i < d.tensors.size(); ++i) {
      const TensorSpec& tensor = d.tensors[i];
      if (tensor.dtype != DType::kFloat32 && tensor.dtype != DType::kInt32) continue;
      if (d.has_own_rows()) {
        check_rows(flying, i);
      } else {
        std::size_t begin = 0;
        std::size_t end = tensor.count();
        if (d.kind == OpKind::kReducescatter) {
          for (int rank = 0; rank < rank_; ++rank) begin += share(tensor, rank);
          end = begin + share(tensor, rank_);
        }
        if (d.kind == OpKind::kReduce && d.root != rank_) end = 0;
        for (; begin < end; ++begin) {
          ASSERT_EQ(element(flying.given[i], tensor.dtype, begin), expected(flying))
              << name_of(d.kind) << " of " << flying.act.name << " on rank " << rank_;
        }
      }
    }
  }

  // Elements of a reducescatter that are a rank's.
  std::size_t share(const TensorSpec& tensor, int rank) const {
    const std::int64_t rows = tensor.shape[0];
    return tensor.count() / static_cast<std::size_t>(rows) *
           static_cast<std::size_t>(kolo::rows_of(rows, rank, size()));
  }

  float expected(const Flying& flying) const {
    const Descriptor& d = flying.act.descriptor;
    if (d.kind == OpKind::kBroadcast || d.kind == OpKind::kSend)
      return value_of(d.root, flying.act.use);
    float sum = 0;
    for (const int rank : programs_.givers[flying.act.use]) sum += value_of(rank, flying.act.use);
    return sum;
  }

  void check_rows(const Flying& flying, std::size_t index) const {
    const Descriptor& d = flying.act.descriptor;
    const std::size_t use = flying.act.use;
    std::size_t at = 0;
    for (int rank = 0; rank < size(); ++rank) {
      const std::int64_t theirs =
          d.kind == OpKind::kAllgather ? rows_of(rank, use) : split_of(rank, rank_, use);
      const std::int64_t rows = programs_.givers[use].count(rank) > 0 ? theirs : 0;
      ASSERT_EQ(flying.rows[index][static_cast<std::size_t>(rank)], rows);
      const std::size_t end = at + static_cast<std::size_t>(rows) * d.tensors[index].count();
      for (; at < end; ++at) {
        ASSERT_EQ(element(flying.gathered[index], d.tensors[index].dtype, at), value_of(rank, use));
      }
    }
  }

  Engine& engine_;
  const int process_set_;
  const std::vector<int> ranks_;
  const int rank_;
  const Programs& programs_;
  std::map<std::string, Flying> in_flight_;
  std::map<std::string, std::string> ends_;
  std::vector<int> lasts_;
};

int add_process_set(Engine& engine, const std::vector<int>& ranks) {
  const auto add = std::make_shared<Operation>();
  add->name = "add";
  add->descriptor.kind = OpKind::kAddProcessSet;
  add->descriptor.tensors = {{DType::kInt64, {ranks.begin(), ranks.end()}}};
  add->tensors.emplace_back();
  EXPECT_TRUE(engine.submit(add).is_ok());
  EXPECT_TRUE(engine.wait(add, std::chrono::seconds(20)).is_ok());
  return add->number;
}

AllreduceAlgorithm random_algorithm(std::mt19937& random) {
  return static_cast<AllreduceAlgorithm>(random() % 4);
}

Engine::Options random_options(std::mt19937& random) {
  Engine::Options options;
  options.group.tuning.chunk_bytes = random() % 2 == 0 ? 64 : 1024;
  options.group.tuning.allreduce.groups = {
      {2, {{0, AllreduceAlgorithm::kRecursiveDoubling}, {16, random_algorithm(random)}}},
      {3, {{0, random_algorithm(random)}, {2048, random_algorithm(random)}}}};
  options.group.small_bytes = random() % 2 == 0 ? 16 : 2048;
  options.group.cache_capacity = random() % 2 == 0 ? 1000 : random() % 24;
  options.group.limits.bucket_bytes = random() % 2 == 0 ? 3 * 64 : 1 << 20;
  if (random() % 2 == 0) options.group.stall_check = std::chrono::seconds(60);
  options.backoff.computing_threads = 8;  // never spin: the ranks share the cores
  return options;
}

Mix random_mix(std::mt19937& random) {
  return {.polls = random() % 3 == 0, .all_kinds = random() % 3 > 0, .joins = random() % 4 > 0};
}

// One rank's programs, in a thread each. The players, whose memory is worked on, outlive the
// engine's thread.
struct Lasts {
  std::vector<int> in_world;
  std::vector<int> in_set;
};
Lasts play_rank(Engine& engine, const std::vector<int>& all, const Programs& in_world,
                const std::vector<int>& some, const Programs& in_set) {
  const int set = add_process_set(engine, some);
  const auto place = std::find(some.begin(), some.end(), engine.rank()) - some.begin();
  Player world_player(engine, 0, all, engine.rank(), in_world);
  Player set_player(engine, set, some, static_cast<int>(place), in_set);
  Lasts lasts;
  std::thread other([&] {
    if (place < std::ssize(some)) lasts.in_set = set_player.play();
  });
  lasts.in_world = world_player.play();
  other.join();
  EXPECT_TRUE(engine.shut_down());
  return lasts;
}

void play_everywhere(unsigned seed) {
  std::mt19937 random(seed);
  const int size = 2 + static_cast<int>(random() % 3);
  const std::vector<int> all = everyone(size);
  std::vector<int> some = all;
  std::shuffle(some.begin(), some.end(), random);
  some.resize(2 + random() % static_cast<unsigned>(size - 1));
  const Programs in_world = ProgramMaker(size, random(), random_mix(random)).make();
  const Programs in_set =
      ProgramMaker(static_cast<int>(some.size()), random(), random_mix(random)).make();
  Engine::Options options = random_options(random);
  auto transports = make_local_transports(size);
  const auto nodes = make_nodes(size, options.group.nodes);
  std::vector<Lasts> lasts(all.size());
  std::vector<std::thread> threads;
  for (const int rank : all) {
    threads.emplace_back([&, rank] {
      Engine engine(std::move(transports[rank]), nodes[rank], options);
      lasts[rank] = play_rank(engine, all, in_world, some, in_set);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int rank : all) EXPECT_EQ(lasts[rank].in_world, lasts[0].in_world);
  for (const int rank : some) EXPECT_EQ(lasts[rank].in_set, lasts[some[0]].in_set);
}

TEST(EnginePrograms, GiveTheRightValues) {
  Seeds seeds(24);
  for (unsigned seed = 0; !HasFailure() && seeds.next(seed);) {
    play_everywhere(seed);
    if (HasFailure()) ADD_FAILURE() << "seed " << seed;
  }
}

}  // namespace
}  // namespace kolo
