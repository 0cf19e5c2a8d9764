// Random programs for the two halves of the control plane, and what must become of them.
#pragma once

#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/negotiation_world.hpp"

namespace kolo {

// The seeds that a test of random programs tries: 0 to count - 1, or those of KOLO_TEST_SEEDS, as
// "1000 5000" (the last one excluded), with which scripts/soak tries many more.
class Seeds {
 public:
  explicit Seeds(unsigned count) : end_(count) {
    const char* text = std::getenv("KOLO_TEST_SEEDS");
    if (text == nullptr) return;
    char* rest = nullptr;
    next_ = static_cast<unsigned>(std::strtoul(text, &rest, 10));
    end_ = static_cast<unsigned>(std::strtoul(rest, nullptr, 10));
  }
  // False after the last one.
  bool next(unsigned& seed) {
    seed = next_;
    return next_++ < end_;
  }

 private:
  unsigned next_ = 0;
  unsigned end_;
};

struct Act {
  enum class Kind { kSubmit, kPoll, kWait, kJoin };
  Kind kind = Kind::kSubmit;
  std::string name;
  Descriptor descriptor = {};
  bool absent = false;
  bool transient = false;
  std::size_t use = 0;  // of kSubmit: the same number on all ranks that take part
};
using Program = std::vector<Act>;

struct Programs {
  std::vector<Program> acts;  // by rank
  // By rank and name, how each use must end: the first characters of World::history().
  std::vector<std::map<std::string, std::string>> ends;
  std::vector<std::set<int>> givers;  // by use: the ranks that submit it, and not as absent
  std::size_t joins = 0;
  std::size_t names = 0;  // that may come again
};

// What programs contain beside allreduces, their mismatches and waits.
struct Mix {
  bool polls = false;      // they ask whether an operation is done
  bool all_kinds = false;  // gathers, sends, groups and so on, with and without names
  bool joins = false;
};

// A program a rank. In each step every rank submits the same names, in parts; within a part the
// order is the rank's own, and between parts it may wait for anything that it has submitted. So
// none can lock. Somewhere in a part ranks may join, each in its turn.
class ProgramMaker {
 public:
  ProgramMaker(int size, unsigned seed, Mix mix = {})
      : mix_(mix), size_(size), random_(seed), unwaited_(size), joined_(size, false) {
    programs_.acts.resize(size);
    programs_.ends.resize(size);
  }

  Programs make() {
    for (int step = 0; step < 14; ++step) add_step(step);
    for (int rank = 0; rank < size_; ++rank) {
      if (joining_ && !joined_[rank]) join(rank);
    }
    // What is left over from before would show: every name once more.
    end_join_if_all_have();
    programs_.names = names_.size();
    for (const Use& use : names_) {
      add_part({use});
      for (int rank = 0; rank < size_; ++rank) wait_for_all(rank);
    }
    return programs_;
  }

 private:
  // Of a name, by all ranks or by the two of a send.
  struct Use {
    std::string name;
    Descriptor descriptor = shape({4});
    bool transient = false;
    int odd_rank = -1;  // submits something else, or a refusal
    DType odd_dtype = DType::kFloat32;
    bool refuses = false;
    bool operator<(const Use& other) const { return name < other.name; }
  };

  bool chance(unsigned percent) { return random_() % 100 < percent; }
  int any_rank() { return static_cast<int>(random_() % static_cast<unsigned>(size_)); }

  void add_step(int step) {
    joining_ = joining_ || (mix_.joins && chance(20));
    std::vector<Use> uses = allreduces(step);
    if (mix_.all_kinds) {
      for (Use& use : others(step)) insert(uses, std::move(use));
      for (Use& use : sends(step)) insert(uses, std::move(use));
    }
    std::vector<std::vector<Use>> parts(1);
    for (const Use& use : uses) {
      if (chance(5)) continue;
      if (chance(10)) parts.emplace_back();
      parts.back().push_back(use);
      if (!use.transient && !use.descriptor.is_between_two())
        names_.insert({use.name, use.descriptor});
    }
    for (const auto& part : parts) add_part(part);
    for (int rank = 0; rank < size_; ++rank) {
      if (!joined_[rank] && chance(90)) wait_for_all(rank);
    }
  }

  // Some names come in every step, one for three steps, one twice with a long pause.
  std::vector<Use> allreduces(int step) {
    std::vector<Use> uses;
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) uses.push_back({name});
    uses.push_back({"x" + std::to_string(step / 3)});
    uses.push_back({"y" + std::to_string(step % 7)});
    if (mix_.joins) {  // some now and then
      for (const unsigned first : {0U, 5U})
        uses.push_back({"z" + std::to_string(first + random_() % 5)});
    }
    change_shapes(uses);
    if (chance(10)) make_odd(uses[0], any_rank(), DType::kInt32);
    return uses;
  }

  // In some steps one tensor has another shape than before, in some every third one: a bucket may
  // have several members that change at once.
  void change_shapes(std::vector<Use>& uses) {
    if (chance(10)) uses[0].descriptor = shape({5});
    if (!chance(15)) return;
    // 4,400 bytes do not fit the room for small values in shared memory.
    const std::int64_t extent = std::array{5, 6, 7, 1100}[random_() % 4];
    for (std::size_t i = random_() % 3; i < uses.size(); i += 1 + random_() % 3)
      uses[i].descriptor = shape({extent});
  }

  std::vector<Use> others(int step) {
    Descriptor group = shape({4});
    group.tensors.push_back({DType::kInt32, {2, 3}});
    group.tensors.push_back({DType::kFloat32, {}});
    Descriptor barrier = described(OpKind::kBarrier, {});
    barrier.tensors.clear();
    Descriptor broadcast = described(OpKind::kBroadcast, {4});
    broadcast.root = chance(70) ? 0 : any_rank();
    Descriptor reduce = described(OpKind::kReduce, {chance(50) ? 3 : 5000});
    reduce.root = broadcast.root;
    std::vector<Use> uses = {
        {"reduce|a", reduce},
        {"allgather|a", described(OpKind::kAllgather, {step % 5 == 0 ? 2 : 3})},
        {"alltoall|a", described(OpKind::kAlltoall, {3})},
        {"reducescatter|b", described(OpKind::kReducescatter, {7, 2})},
        {"broadcast|a", broadcast},
        {"barrier|b", barrier},
        {"Many", group},
        {"Set", described(OpKind::kAddProcessSet, {0, 1})},
        {"u" + std::to_string(step), shape({4}), true},
    };
    Use& odd = uses[random_() % uses.size()];
    if (chance(15) && !odd.descriptor.tensors.empty()) make_odd(odd, any_rank(), DType::kInt64);
    return uses;
  }

  // Named ones that come again, named ones that do not, and unnamed ones. As in the public calls
  // the pair is part of the name.
  std::vector<Use> sends(int step) {
    std::set<Use> uses;
    for (unsigned left = random_() % 4; left > 0; --left) {
      const int source = any_rank();
      const int destination = (source + 1 + any_rank() % (size_ - 1)) % size_;
      const std::string pair = "." + std::to_string(source) + "." + std::to_string(destination);
      const unsigned kind = random_() % 3;
      const std::string name = kind == 0 ? "s" : (kind == 1 ? "n" : "t") + std::to_string(step);
      Use use = {name + pair, send_between(source, destination), kind == 2};
      if (chance(10)) make_odd(use, chance(50) ? source : destination, DType::kInt8);
      uses.insert(use);
    }
    return {uses.begin(), uses.end()};
  }

  void make_odd(Use& use, int rank, DType dtype) {
    use.odd_rank = rank;
    use.odd_dtype = chance(50) ? dtype : DType::kFloat32;
    use.refuses = chance(20);
  }
  void insert(std::vector<Use>& uses, Use use) {
    const auto at = static_cast<std::ptrdiff_t>(random_() % (uses.size() + 1));
    uses.insert(uses.begin() + at, std::move(use));
  }

  static bool takes_part(const Use& use, int rank) {
    const Descriptor& d = use.descriptor;
    return !d.is_between_two() || d.root == rank || d.destination == rank;
  }

  void add_part(const std::vector<Use>& uses) {
    std::vector<std::vector<int>> came(uses.size());
    const std::size_t first = programs_.givers.size();
    programs_.givers.resize(first + uses.size());
    for (int rank = 0; rank < size_; ++rank) {
      if (joined_[rank]) continue;
      std::vector<std::size_t> order(uses.size());
      std::iota(order.begin(), order.end(), 0U);
      if (rank > 0 || chance(5)) std::shuffle(order.begin(), order.end(), random_);
      const bool joins = joining_ && chance(30);
      if (joins) order.resize(random_() % (order.size() + 1));
      if (joins && chance(30)) wait_for_all(rank);  // later it would wait for who waits for it
      for (const std::size_t i : order) {
        if (!takes_part(uses[i], rank)) continue;
        submit(rank, uses[i], first + i);
        came[i].push_back(rank);
      }
      if (joins) {
        join(rank);
      } else if (!unwaited_[rank].empty() && chance(7)) {
        wait_for(rank, any_of(rank));
      }
    }
    for (std::size_t i = 0; i < uses.size(); ++i) expect(uses[i], came[i]);
    end_join_if_all_have();
  }

  void submit(int rank, const Use& use, std::size_t number) {
    wait_for(rank, use.name);
    Act act{Act::Kind::kSubmit, use.name, use.descriptor, false, use.transient, number};
    if (rank == use.odd_rank && use.refuses) {
      act.descriptor.refusal = "an argument is wrong";
    } else if (rank == use.odd_rank) {
      act.descriptor.tensors[0].shape.push_back(6);
      act.descriptor.tensors[0].dtype = use.odd_dtype;
    }
    act.absent = mix_.all_kinds && use.descriptor.kind == OpKind::kAllreduce && chance(5);
    if (!act.absent) programs_.givers[number].insert(rank);
    programs_.acts[rank].push_back(act);
    unwaited_[rank].push_back(use.name);
    if (mix_.polls && chance(10)) programs_.acts[rank].push_back({Act::Kind::kPoll, any_of(rank)});
  }

  // `came`: the ranks that have submitted it; all others have joined.
  void expect(const Use& use, const std::vector<int>& came) {
    if (came.empty()) return;
    const auto has_come = [&](int rank) {
      return std::find(came.begin(), came.end(), rank) != came.end();
    };
    const Descriptor& d = use.descriptor;
    const bool fails = ((came.size() > 1 || use.refuses) && has_come(use.odd_rank)) ||
                       (traits_of(d.kind).needs_root && !has_come(d.root)) ||
                       (d.is_between_two() && came.size() < 2);
    for (int rank = 0; rank < size_; ++rank) {
      std::string& ends = programs_.ends[rank][use.name];
      if (has_come(rank)) {
        ends += fails ? '-' : '+';
      } else if (!fails && !d.is_between_two()) {
        ends += '~';
      }
      if (ends.empty()) programs_.ends[rank].erase(use.name);
    }
  }

  void join(int rank) {
    programs_.acts[rank].push_back({Act::Kind::kJoin, "join"});
    programs_.acts[rank].push_back({Act::Kind::kWait, "join"});
    joined_[rank] = true;
  }
  void end_join_if_all_have() {
    if (std::find(joined_.begin(), joined_.end(), false) != joined_.end()) return;
    joined_.assign(joined_.size(), false);
    joining_ = false;
    ++programs_.joins;
  }

  std::string any_of(int rank) { return unwaited_[rank][random_() % unwaited_[rank].size()]; }
  void wait_for(int rank, const std::string& name) {
    if (std::erase(unwaited_[rank], name) == 0) return;
    programs_.acts[rank].push_back({Act::Kind::kWait, name});
  }
  void wait_for_all(int rank) {
    while (!unwaited_[rank].empty()) wait_for(rank, any_of(rank));
  }

  const Mix mix_;
  const int size_;
  std::mt19937 random_;
  Programs programs_;
  std::vector<std::vector<std::string>> unwaited_;
  std::set<Use> names_;  // that may come again
  bool joining_ = false;
  std::vector<bool> joined_;
};

// Runs one rank's program in a World, an act at a time; then the rank leaves.
class Runner {
 public:
  Runner(World& world, int rank, const Program& program)
      : world_(world), rank_(rank), program_(program) {}

  bool finished() const { return left_; }

  // False if the program is blocked, or over.
  bool go_on() {
    if (at_ == program_.size() || world_.failures(rank_).count("join") > 0) {
      if (std::exchange(left_, true)) return false;
      world_.leave(rank_);
      return true;
    }
    const Act& act = program_[at_];
    if (!std::exchange(begun_, true)) begin(act);
    if (act.kind == Act::Kind::kWait && world_.busy(rank_, act.name)) return false;
    begun_ = false;
    ++at_;
    return true;
  }

 private:
  void begin(const Act& act) {
    if (act.kind == Act::Kind::kSubmit) {
      world_.submit(rank_, act.name, act.descriptor, act.absent, act.transient);
    } else if (act.kind == Act::Kind::kJoin) {
      world_.join(rank_);
    } else {
      world_.wait_begins(rank_, act.name);
    }
  }

  World& world_;
  const int rank_;
  const Program& program_;
  std::size_t at_ = 0;
  bool begun_ = false;
  bool left_ = false;
};

// Runs the programs with messages and threads in random order.
inline void run_programs(World& world, const std::vector<Program>& programs) {
  std::vector<Runner> runners;
  for (int rank = 0; rank < world.size(); ++rank) runners.emplace_back(world, rank, programs[rank]);
  const auto all_finished = [&] {
    return std::all_of(runners.begin(), runners.end(), [](auto& r) { return r.finished(); });
  };
  const unsigned haste = 1 + world.random()() % 8;  // of the programs against the messages
  while (!all_finished()) {
    const bool program_first = world.random()() % 8 < haste;
    bool moved = program_first && runners[world.random()() % runners.size()].go_on();
    if (!moved) moved = world.deliver_one();
    for (Runner& runner : runners) moved = moved || runner.go_on();
    if (moved || world.deliver_one()) continue;
    ADD_FAILURE() << "all programs wait and no message is under way";
    break;
  }
  world.deliver_all();
}

// A rank that was told to be the last must not have given a stand-in in anything that another rank
// saw before it joined.
inline void expect_the_last_was_last(const World& world, std::size_t join) {
  const int last = world.joins(0)[join].last;
  ASSERT_GE(last, 0);
  const World::Join& of_last = world.joins(last)[join];
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(world.joins(rank)[join].last, last);
    for (const std::size_t sequence : of_last.stood_in)
      EXPECT_GE(sequence, world.joins(rank)[join].launched) << "rank " << rank << " came later";
  }
}

// What two ranks launch has the same number on both.
inline void expect_the_same_order(const World& world) {
  for (int rank = 1; rank < world.size(); ++rank) {
    const std::size_t launches = std::min(world.launches(rank).size(), world.launches(0).size());
    for (std::size_t i = 0; i < launches; ++i) {
      const auto& here = world.launches(rank)[i];
      const auto& there = world.launches(0)[i];
      EXPECT_TRUE(here == there || here.empty() || there.empty()) << "launch " << i;
    }
  }
}

// Every rank did what its program says, and nothing else.
inline void expect_done(const World& world, const Programs& programs) {
  expect_the_same_order(world);
  EXPECT_EQ(world.dissolved_buckets(), 0U) << "else the coordinator keeps them for good";
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_TRUE(world.idle(rank));
    EXPECT_TRUE(world.closed(rank));
    std::map<std::string, std::string> ends;
    for (const auto& [name, history] : world.history(rank)) {
      for (const std::string& end : history) ends[name] += end[0];
    }
    EXPECT_EQ(ends, programs.ends[rank]) << "rank " << rank;
    EXPECT_LE(world.numbers(rank), programs.names) << "rank " << rank;
    ASSERT_EQ(world.joins(rank).size(), programs.joins);
  }
  for (std::size_t join = 0; join < programs.joins; ++join) expect_the_last_was_last(world, join);
}

}  // namespace kolo
