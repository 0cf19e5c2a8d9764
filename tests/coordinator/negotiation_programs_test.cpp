// Random programs under random orders of messages: what is done, and what is fused, must depend on
// the programs alone.
#include "coordinator/negotiation_programs.hpp"

namespace kolo {
namespace {

int size_for(unsigned seed) {
  return 2 + static_cast<int>(seed / 8 % 3);
}

// How often something was fused.
int fused(const World::History& history) {
  int fused = 0;
  for (const auto& [name, ends] : history) {
    for (const std::string& end : ends) {
      const bool alone = end.substr(1) == name || end.substr(1) == name + " (absent)";
      if (end[0] != '-' && !alone) ++fused;
    }
  }
  return fused;
}

struct Orders {
  unsigned count = 0;
  std::size_t small_cache = 0;  // in which the names in flight fit; every second program has it
};

// Runs the programs of the seed under several orders of messages; gives how often something was
// fused.
int run_all_orders(unsigned seed, Mix mix, Orders orders) {
  const int size = size_for(seed);
  PlanLimits limits;
  limits.bucket_bytes = seed % 2 == 0 ? 3 * 64 : 1 << 20;
  const Programs programs = ProgramMaker(size, seed, mix).make();
  std::vector<World::History> expected;
  for (unsigned order = 0; order < orders.count; ++order) {
    World world(size, order, seed % 4 < 2 ? orders.small_cache : 1000, limits);
    run_programs(world, programs.acts);
    expect_done(world, programs);
    for (int rank = 0; rank < size; ++rank) {
      if (order == 0) expected.push_back(world.history(rank));
      EXPECT_TRUE(mix.polls || world.history(rank) == expected[rank]) << "rank " << rank;
    }
    if (!testing::Test::HasFailure()) continue;
    ADD_FAILURE() << "programs " << seed << ", order " << order;
    break;
  }
  return fused(expected[0]);
}

TEST(NegotiationPrograms, WhatIsFusedDependsOnThemAlone) {
  int fused = 0;
  Seeds seeds(110);
  for (unsigned seed = 0; !HasFailure() && seeds.next(seed);)
    fused += run_all_orders(seed, {}, {6, 16});
  EXPECT_GT(fused, 2000) << "else this test sees too little";
}

// ... also among operations that are never fused, and where ranks join.
TEST(NegotiationPrograms, MayContainAllKindsAndJoins) {
  int fused = 0;
  Seeds seeds(90);
  for (unsigned seed = 0; !HasFailure() && seeds.next(seed);) {
    const Mix mix = {.all_kinds = seed % 3 > 0, .joins = seed % 3 < 2};
    fused += run_all_orders(seed, mix, {6, mix.all_kinds ? 24U : 16U});
  }
  EXPECT_GT(fused, 1000) << "else this test sees too little";
}

// When a program that polls finds an operation done depends on timing, and so may what is fused;
// not whether all goes well.
TEST(NegotiationPrograms, MayPoll) {
  Seeds seeds(80);
  for (unsigned seed = 0; !HasFailure() && seeds.next(seed);) {
    const Mix mix = {.polls = true, .all_kinds = seed % 8 < 2, .joins = seed % 4 < 2};
    run_all_orders(seed, mix, {4, 4});
  }
}

// One or two ranks end their programs early. What others wait for fails; nothing hangs.
TEST(NegotiationPrograms, MayEndEarly) {
  Seeds seeds(70);
  for (unsigned seed = 0; !HasFailure() && seeds.next(seed);) {
    const int size = size_for(seed);
    const Mix mix = {.polls = seed % 2 == 0, .all_kinds = seed % 8 < 2, .joins = seed % 4 < 2};
    std::vector<Program> programs = ProgramMaker(size, seed, mix).make().acts;
    std::mt19937 random(seed);
    for (unsigned cuts = 1 + random() % 2; cuts > 0; --cuts) {
      Program& program = programs[random() % programs.size()];
      program.resize(random() % (program.size() + 1));
    }
    for (unsigned order = 0; order < 4; ++order) {
      World world(size, order, seed % 16 < 8 ? 4 : 1000);
      run_programs(world, programs);
      expect_the_same_order(world);
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_TRUE(world.idle(rank));
        EXPECT_TRUE(world.closed(rank)) << "programs " << seed << ", order " << order;
      }
    }
  }
}

}  // namespace
}  // namespace kolo
