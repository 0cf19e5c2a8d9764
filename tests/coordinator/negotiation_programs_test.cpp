// Random programs under random orders of messages: what is fused must depend on the programs alone.
#include <utility>

#include "coordinator/negotiation_world.hpp"

namespace kolo {
namespace {

struct Act {
  enum class Kind { kSubmit, kPoll, kWait };
  Kind kind = Kind::kSubmit;
  std::string name;
  Descriptor descriptor;
};
using Program = std::vector<Act>;

// A program a rank. In each step every rank submits the same names, in parts; within a part the
// order is the rank's own, and between parts it may wait for anything that it has submitted. So
// none can lock.
class ProgramMaker {
 public:
  // `polls`: programs also ask whether an operation is done.
  ProgramMaker(int size, unsigned seed, bool polls = false)
      : polls_(polls), random_(seed), programs_(size), unwaited_(size) {}

  std::vector<Program> make() {
    for (int step = 0; step < 14; ++step) add_step(step);
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) wait_for_all(rank);
    return programs_;
  }

 private:
  bool chance(unsigned percent) { return random_() % 100 < percent; }

  void add_step(int step) {
    // Some names come in every step, one for three steps, one twice with a long pause.
    const std::vector<std::string> names = {"a",
                                            "b",
                                            "c",
                                            "d",
                                            "e",
                                            "f",
                                            "x" + std::to_string(step / 3),
                                            "y" + std::to_string(step % 7)};
    std::vector<std::vector<std::string>> parts(1);
    for (const std::string& name : names) {
      if (chance(5)) continue;
      if (chance(10)) parts.emplace_back();
      parts.back().push_back(name);
    }
    const int extent = chance(10) ? 5 : 4;
    const std::size_t odd_rank = chance(10) ? random_() % programs_.size() : programs_.size();
    for (const auto& part : parts) {
      for (std::size_t rank = 0; rank < programs_.size(); ++rank)
        add_part(rank, part, rank == odd_rank ? 6 : extent);
    }
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      if (chance(90)) wait_for_all(rank);
    }
  }

  void add_part(std::size_t rank, std::vector<std::string> names, int extent_of_a) {
    if (rank > 0 || chance(5)) std::shuffle(names.begin(), names.end(), random_);
    for (const std::string& name : names) {
      wait_for(rank, name);
      programs_[rank].push_back({Act::Kind::kSubmit, name, shape({name == "a" ? extent_of_a : 4})});
      unwaited_[rank].push_back(name);
      if (polls_ && chance(10)) programs_[rank].push_back({Act::Kind::kPoll, any_of(rank), {}});
    }
    if (!unwaited_[rank].empty() && chance(7)) wait_for(rank, any_of(rank));
  }

  std::string any_of(std::size_t rank) {
    return unwaited_[rank][random_() % unwaited_[rank].size()];
  }
  void wait_for(std::size_t rank, const std::string& name) {
    if (std::erase(unwaited_[rank], name) == 0) return;
    programs_[rank].push_back({Act::Kind::kWait, name, {}});
  }
  void wait_for_all(std::size_t rank) {
    while (!unwaited_[rank].empty()) wait_for(rank, any_of(rank));
  }

  const bool polls_;
  std::mt19937 random_;
  std::vector<Program> programs_;
  std::vector<std::vector<std::string>> unwaited_;
};

// Runs one rank's program in a World, an act at a time.
class Runner {
 public:
  Runner(World& world, int rank, const Program& program)
      : world_(world), rank_(rank), program_(program) {}

  bool finished() const { return at_ == program_.size(); }

  // False if the program is blocked.
  bool go_on() {
    if (finished()) return false;
    const Act& act = program_[at_];
    if (act.kind == Act::Kind::kSubmit) {
      world_.submit(rank_, act.name, act.descriptor);
    } else if (!std::exchange(waiting_, true)) {
      world_.wait_begins(rank_, act.name);
    }
    if (act.kind == Act::Kind::kWait && world_.busy(rank_, act.name)) return false;
    waiting_ = false;
    ++at_;
    return true;
  }

 private:
  World& world_;
  const int rank_;
  const Program& program_;
  std::size_t at_ = 0;
  bool waiting_ = false;
};

// Runs the programs with messages and threads in random order. What each tensor was fused with,
// each time.
std::map<std::string, std::vector<std::string>> run_programs(World& world,
                                                             const std::vector<Program>& programs) {
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
  std::map<std::string, std::vector<std::string>> history;
  for (const std::vector<std::string>& launch : world.launches(0)) {
    std::string together;
    for (const std::string& name : launch) together += name;
    for (const std::string& name : launch) history[name].push_back(together);
  }
  return history;
}

TEST(Negotiation, WhatIsFusedDependsOnTheProgramsAlone) {
  int fused = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    const int size = 2 + static_cast<int>(seed % 3);
    const std::size_t capacity = seed % 4 == 3 ? 16 : 1000;  // names in flight fit
    PlanLimits limits;
    limits.bucket_bytes = seed % 2 == 0 ? 3 * 64 : 1 << 20;
    const std::vector<Program> programs = ProgramMaker(size, seed).make();
    std::map<std::string, std::vector<std::string>> expected;
    for (unsigned order = 0; order < 10; ++order) {
      World world(size, order, capacity, limits);
      const auto history = run_programs(world, programs);
      for (int rank = 1; rank < size; ++rank) {
        ASSERT_EQ(world.launches(rank), world.launches(0));
        ASSERT_TRUE(world.idle(rank));
      }
      if (order == 0) expected = history;
      ASSERT_EQ(history, expected) << "programs " << seed << ", order " << order;
    }
    for (const auto& [name, groups] : expected) {
      for (const std::string& group : groups) fused += group != name ? 1 : 0;
    }
  }
  EXPECT_GT(fused, 2000) << "else this test sees too little";
}

// When a program that polls finds an operation done depends on timing, and so may what is fused;
// not whether all goes well.
TEST(Negotiation, ProgramsMayPoll) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const int size = 2 + static_cast<int>(seed % 3);
    const std::vector<Program> programs = ProgramMaker(size, seed, true).make();
    for (unsigned order = 0; order < 5; ++order) {
      World world(size, order, seed % 4 == 3 ? 4 : 1000);
      run_programs(world, programs);
      for (int rank = 0; rank < size; ++rank) {
        ASSERT_TRUE(world.idle(rank));
        ASSERT_EQ(world.launches(rank), world.launches(0));
      }
    }
  }
}

}  // namespace
}  // namespace kolo
