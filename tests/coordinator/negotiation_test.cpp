// Both halves of the control plane against each other, without threads or MPI: messages lie in
// queues and a seeded generator says whose is next. Whatever the order, nothing hangs, every rank
// launches the same things in the same order, and buckets do not depend on the order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include "coordinator/negotiator.hpp"
#include "coordinator/participant.hpp"

namespace kolo {
namespace {

using ::testing::HasSubstr;

Descriptor shape(std::vector<std::int64_t> extents, DType dtype = DType::kFloat32) {
  Descriptor d;
  d.tensors = {{dtype, std::move(extents)}};
  return d;
}

std::vector<int> everyone(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class World {
 public:
  explicit World(int size, unsigned seed = 0, std::size_t capacity = 1000, PlanLimits limits = {})
      : size_(size), random_(seed), negotiator_({everyone(size), limits}) {
    for (int rank = 0; rank < size; ++rank) participants_.emplace_back(rank, capacity);
    reports_.resize(size);
    decisions_.resize(size);
    launches_.resize(size);
    failures_.resize(size);
    in_flight_.resize(size);
    closed_.assign(size, false);
  }

  void submit(int rank, const std::string& name, const Descriptor& descriptor = shape({4}),
              bool absent = false, bool transient = false) {
    ASSERT_FALSE(busy(rank, name)) << "the test submits twice";
    const Participant::Token token = next_token_++;
    in_flight_[rank][token] = name;
    participants_[rank].submit({token, name, descriptor, absent, transient, Clock::now()});
    collect(rank);
  }
  // As the mailbox tells it.
  void wait_begins(int rank, const std::string& name) {
    participants_[rank].boundary();
    if (busy(rank, name)) participants_[rank].wanted(name);
    collect(rank);
  }
  void join(int rank) {
    const Participant::Token token = next_token_++;
    in_flight_[rank][token] = "join";
    participants_[rank].join(token);
    collect(rank);
  }
  int stand_ins(int rank) { return stand_ins_[rank]; }
  int last_joined(int rank) { return last_joined_.count(rank) == 0 ? -1 : last_joined_[rank]; }
  void leave(int rank) {
    participants_[rank].leave();
    collect(rank);
  }
  bool busy(int rank, const std::string& name) const {
    const auto& flying = in_flight_[rank];
    return std::any_of(flying.begin(), flying.end(),
                       [&](const auto& f) { return f.second == name; });
  }
  bool idle(int rank) const { return in_flight_[rank].empty(); }

  // Delivers one message, chosen at random. False if there is none.
  bool deliver_one() {
    std::vector<int> choices;  // rank: a report of it; -1 - rank: decisions for it
    for (int rank = 0; rank < size_; ++rank) {
      if (!reports_[rank].empty()) choices.push_back(rank);
      if (!decisions_[rank].empty()) choices.push_back(-1 - rank);
    }
    if (choices.empty()) return false;
    const int choice = choices[random_() % choices.size()];
    if (choice >= 0) {
      const Status status = negotiator_.handle(choice, through_the_wire(take(reports_[choice])));
      EXPECT_TRUE(status.is_ok()) << status.message();
      const wire::Decisions made = negotiator_.take_decisions();
      if (!made.empty()) {
        for (auto& queue : decisions_) queue.push_back(made);
      }
    } else {
      apply(-1 - choice, through_the_wire(take(decisions_[-1 - choice])));
    }
    return true;
  }
  void deliver_all() {
    while (deliver_one()) {
    }
  }

  const std::vector<std::vector<std::string>>& launches(int rank) const { return launches_[rank]; }
  std::map<std::string, Status>& failures(int rank) { return failures_[rank]; }
  bool closed(int rank) const { return closed_[rank]; }
  Participant& participant(int rank) { return participants_[rank]; }
  std::mt19937& random() { return random_; }
  std::size_t bytes() const { return bytes_; }
  int size() const { return size_; }

 private:
  template <typename Message>
  static Message take(std::deque<Message>& queue) {
    Message front = queue.front();
    queue.pop_front();
    return front;
  }
  template <typename Message>
  Message through_the_wire(const Message& message) {
    Message decoded;
    const auto bytes = wire::encode(message);
    bytes_ += bytes.size();
    EXPECT_TRUE(wire::decode(bytes, decoded).is_ok());
    return decoded;
  }
  void collect(int rank) {
    wire::Report report = participants_[rank].take_report();
    if (!report.empty()) reports_[rank].push_back(std::move(report));
  }
  void apply(int rank, const wire::Decisions& decisions) {
    std::vector<Participant::Action> actions;
    const Status status = participants_[rank].apply(decisions, actions);
    EXPECT_TRUE(status.is_ok()) << "rank " << rank << ": " << status.message();
    for (const auto& action : actions) {
      if (const auto* launch = std::get_if<Participant::Launch>(&action)) record(rank, *launch);
      if (const auto* failure = std::get_if<Participant::Failure>(&action)) {
        failures_[rank][in_flight_[rank].at(failure->token)] = failure->status;
        in_flight_[rank].erase(failure->token);
      }
      if (const auto* joined = std::get_if<Participant::Joined>(&action)) {
        in_flight_[rank].erase(joined->token);
        last_joined_[rank] = joined->last_rank;
      }
      if (std::holds_alternative<Participant::Closed>(action)) closed_[rank] = true;
    }
    collect(rank);
  }
  void record(int rank, const Participant::Launch& launch) {
    EXPECT_EQ(launch.sequence, launches_[rank].size());
    std::vector<std::string> names;
    for (const auto& member : launch.members) {
      std::string name = member.token == 0 ? member.name : in_flight_[rank].at(member.token);
      if (member.token == 0) ++stand_ins_[rank];
      names.push_back(std::move(name) + (member.absent_everywhere ? " (absent)" : ""));
      in_flight_[rank].erase(member.token);
    }
    launches_[rank].push_back(names);
  }

  const int size_;
  std::mt19937 random_;
  Negotiator negotiator_;
  std::vector<Participant> participants_;
  std::vector<std::deque<wire::Report>> reports_;
  std::vector<std::deque<wire::Decisions>> decisions_;
  std::vector<std::vector<std::vector<std::string>>> launches_;
  std::vector<std::map<std::string, Status>> failures_;
  std::vector<std::map<Participant::Token, std::string>> in_flight_;
  std::vector<bool> closed_;
  std::map<int, int> stand_ins_;    // by rank
  std::map<int, int> last_joined_;  // by rank, what it was told
  Participant::Token next_token_ = 1;
  std::size_t bytes_ = 0;
};

// A step of training: every rank submits all names, each in an order of its own but rank 0 in the
// given one, then waits for all. Messages are delivered in between at random.
void train_step(World& world, const std::vector<std::string>& names) {
  struct Rank {
    std::vector<std::string> to_submit;
    bool waiting = false;
  };
  std::vector<Rank> ranks(world.size(), Rank{names, false});
  for (int rank = 1; rank < world.size(); ++rank) {
    std::shuffle(ranks[rank].to_submit.begin(), ranks[rank].to_submit.end(), world.random());
  }
  for (int finished = 0; finished < world.size();) {
    const int rank = static_cast<int>(world.random()() % world.size());
    Rank& r = ranks[rank];
    if (!r.to_submit.empty()) {
      world.submit(rank, r.to_submit.front());
      r.to_submit.erase(r.to_submit.begin());
    } else if (!r.waiting) {
      world.wait_begins(rank, names.front());
      r.waiting = true;
      ++finished;
    }
    if (world.random()() % 2 == 0) world.deliver_one();
  }
  world.deliver_all();
  for (int rank = 0; rank < world.size(); ++rank)
    ASSERT_TRUE(world.idle(rank)) << "rank " << rank << " hangs";
}

TEST(Negotiation, ATensorRunsWhenEveryRankHasIt) {
  World world(3);
  world.submit(0, "a");
  world.submit(2, "a");
  world.deliver_all();
  EXPECT_TRUE(world.launches(0).empty());
  world.submit(1, "a");
  world.deliver_all();
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(world.launches(rank), testing::ElementsAre(testing::ElementsAre("a")));
}

TEST(Negotiation, KnownTensorsTravelWithoutTheirNames) {
  World world(2);
  const std::string name(1000, 'x');
  const auto step = [&] {
    const std::size_t before = world.bytes();
    for (int rank = 0; rank < 2; ++rank) world.submit(rank, name);
    for (int rank = 0; rank < 2; ++rank) world.wait_begins(rank, name);
    world.deliver_all();
    return world.bytes() - before;
  };
  EXPECT_GT(step(), 3000U);
  EXPECT_LT(step(), 40U);
  EXPECT_LT(step(), 40U);
}

TEST(Negotiation, WhatIsSubmittedTogetherIsFusedFromTheThirdTimeOn) {
  World world(3);
  const std::vector<std::string> names = {"a", "b", "c"};
  for (int step = 0; step < 4; ++step) train_step(world, names);
  const auto& launches = world.launches(0);
  ASSERT_EQ(launches.size(), 3U + 3U + 1U + 1U);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(launches[i].size(), 1U);
  EXPECT_EQ(launches[6], names);
  EXPECT_EQ(launches[7], names);
}

// The heart of it: 300 random interleavings give the same buckets on every rank and in every run.
TEST(Negotiation, BucketsDependOnTheProgramAlone) {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g"};
  PlanLimits limits;
  limits.bucket_bytes = 3 * 64;
  for (unsigned seed = 0; seed < 300; ++seed) {
    World world(1 + static_cast<int>(seed % 5), seed, 1000, limits);
    for (int step = 0; step < 5; ++step) train_step(world, names);
    for (int rank = 1; rank < world.size(); ++rank)
      ASSERT_EQ(world.launches(rank), world.launches(0));
    std::vector<std::vector<std::string>> late(world.launches(0).end() - 9,
                                               world.launches(0).end());
    std::sort(late.begin(), late.end());
    const std::vector<std::string> first = {"a", "b", "c"};
    const std::vector<std::string> second = {"d", "e", "f"};
    const std::vector<std::string> third = {"g"};
    ASSERT_EQ(late, (std::vector<std::vector<std::string>>{first, first, first, second, second,
                                                           second, third, third, third}))
        << "seed " << seed;
  }
}

TEST(Negotiation, ASkippedTensorGivesTheBucketUpAndNothingHangs) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 3; ++step) train_step(world, {"a", "b", "c"});
    train_step(world, {"a", "c"});       // b does not come
    train_step(world, {"a", "b", "c"});  // and comes back
    train_step(world, {"c", "new", "a"});
    for (int step = 0; step < 3; ++step) train_step(world, {"a", "b", "c"});
    for (int rank = 1; rank < 3; ++rank) ASSERT_EQ(world.launches(rank), world.launches(0));
  }
}

// --- random programs: what is fused must depend on them alone ---

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

// Rank 1 submits "a" for the bucket's first time before it has heard of the bucket, and waits.
TEST(Negotiation, AWaitBeforeTheBucketIsKnownLetsItGo) {
  World world(2);
  train_step(world, {"a", "b"});
  for (int rank = 0; rank < 2; ++rank) {
    world.submit(rank, "a");
    world.submit(rank, "b");
  }
  world.deliver_all();  // both have run; rank 0's program has not waited yet
  world.submit(1, "a");
  world.wait_begins(1, "a");
  world.wait_begins(0, "a");
  world.submit(0, "a");
  world.submit(0, "b");
  world.wait_begins(0, "a");
  world.deliver_all();
  EXPECT_FALSE(world.busy(1, "a"));
}

TEST(Negotiation, WaitingInBetweenIsNotFused) {
  World world(2);
  for (int step = 0; step < 4; ++step) {
    for (const char* name : {"a", "b"}) {
      for (int rank = 0; rank < 2; ++rank) {
        world.submit(rank, name);
        world.wait_begins(rank, name);
      }
      world.deliver_all();
    }
  }
  for (const auto& launch : world.launches(0)) EXPECT_EQ(launch.size(), 1U);
  EXPECT_EQ(world.launches(0).size(), 8U);
}

TEST(Negotiation, AMismatchNamesTensorRanksAndDifference) {
  World world(3);
  world.submit(0, "w", shape({2, 3}));
  world.submit(1, "w", shape({3, 2}));
  world.submit(2, "w", shape({2, 3}));
  world.submit(0, "fine");
  world.submit(1, "fine");
  world.submit(2, "fine");
  world.deliver_all();
  for (int rank = 0; rank < 3; ++rank) {
    const Status& status = world.failures(rank)["w"];
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr("'w'"));
    EXPECT_THAT(status.message(), HasSubstr("shape: [2, 3] on ranks 0, 2; [3, 2] on rank 1"));
    EXPECT_EQ(world.launches(rank).size(), 1U);
  }
}

TEST(Negotiation, GroupsAndGathersAreComparedTensorByTensor) {
  Descriptor a;
  a.tensors = {{DType::kFloat32, {4}}, {DType::kFloat32, {2, 3}}};
  Descriptor b = a;
  b.tensors[1].shape = {3, 2};
  EXPECT_EQ(describe_difference({&a, &b}, {0, 1}),
            "shape of tensor 1: [2, 3] on rank 0; [3, 2] on rank 1");
  b.tensors.pop_back();
  EXPECT_THAT(describe_difference({&a, &b}, {0, 1}),
              HasSubstr("number of tensors: 2 on rank 0; 1 on rank 1"));
  a = shape({3});
  a.kind = OpKind::kAllgather;
  b = a;
  b.tensors[0].shape = {};
  EXPECT_EQ(describe_difference({&a, &b}, {0, 1}), "shape: [*, 3] on rank 0; [*] on rank 1");
}

TEST(Negotiation, EveryFieldIsCompared) {
  const auto difference_of = [](auto change) {
    Descriptor a = shape({4});
    Descriptor b = a;
    change(b);
    return describe_difference({&a, &b}, {0, 1});
  };
  EXPECT_EQ(difference_of([](Descriptor&) {}), "");
  EXPECT_THAT(difference_of([](Descriptor& d) { d.kind = OpKind::kBroadcast; }),
              HasSubstr("operation: allreduce on rank 0; broadcast on rank 1"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.tensors[0].dtype = DType::kInt8; }),
              HasSubstr("dtype: float32 on rank 0; int8 on rank 1"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.op = ReduceOp::Max; }),
              HasSubstr("operator: Sum on rank 0; Max on rank 1"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.root = 1; }),
              HasSubstr("root rank: 0 on rank 0; 1 on rank 1"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.prescale = 2; }), HasSubstr("prescale"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.postscale = 2; }), HasSubstr("postscale"));
  EXPECT_THAT(difference_of([](Descriptor& d) { d.prescale = 1 + 1e-12; }),
              HasSubstr("1 on rank 0; 1.000000000001 on rank 1"));
}

TEST(Negotiation, AKnownTensorMayChangeItsShapeEverywhere) {
  World world(2);
  for (const auto& extents : std::vector<std::vector<std::int64_t>>{{4}, {4}, {7}, {7}, {4}}) {
    for (int rank = 0; rank < 2; ++rank) world.submit(rank, "last batch", shape(extents));
    world.deliver_all();
  }
  EXPECT_EQ(world.launches(1).size(), 5U);
}

// ... but not on some ranks alone, also when the tensor is in a bucket; and it recovers.
TEST(Negotiation, AKnownTensorThatChangesOnOneRankFailsAndRecovers) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
    for (int rank = 0; rank < 3; ++rank) {
      world.submit(rank, "a");
      world.submit(rank, "b", rank == 1 ? shape({9}) : shape({4}));
      world.submit(rank, "c");
    }
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(world.idle(rank));
      ASSERT_EQ(world.failures(rank).size(), 1U);
      EXPECT_THAT(world.failures(rank)["b"].message(), HasSubstr("[9] on rank 1"));
    }
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
  }
}

TEST(Negotiation, AfterAMismatchTensorsAreFusedAgain) {
  World world(2);
  for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
  for (int rank = 0; rank < 2; ++rank) {
    world.submit(rank, "a");
    world.submit(rank, "b", rank == 1 ? shape({9}) : shape({4}));
    world.submit(rank, "c");
  }
  world.deliver_all();
  for (int step = 0; step < 5; ++step) train_step(world, {"a", "b", "c"});
  EXPECT_EQ(world.launches(0).back().size(), 3U);
}

TEST(Negotiation, BucketMembersMayChangeShapeTogether) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b", "c"});
    for (int rank = 0; rank < 3; ++rank) {
      for (const char* name : {"a", "b", "c"})
        world.submit(rank, name, name[0] == 'b' ? shape({9}) : shape({4}));
    }
    for (int rank = 0; rank < 3; ++rank) world.wait_begins(rank, "a");
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(world.idle(rank));
      ASSERT_TRUE(world.failures(rank).empty());
      ASSERT_EQ(world.launches(rank), world.launches(0));
    }
  }
}

TEST(Negotiation, AbsentTensors) {
  World world(2);
  for (int step = 0; step < 4; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      world.submit(rank, "here");
      world.submit(rank, "nowhere", shape({4}), true);
      world.submit(rank, "on rank 1", shape({4}), rank == 0);
    }
    for (int rank = 0; rank < 2; ++rank) world.wait_begins(rank, "here");
    world.deliver_all();
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(world.launches(rank)[1], testing::ElementsAre("nowhere (absent)"));
    EXPECT_THAT(world.launches(rank).back(),
                testing::ElementsAre("here", "nowhere (absent)", "on rank 1"));
  }
}

TEST(Negotiation, TheCacheEvictsAndNothingIsLost) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    World world(3, seed, 4);  // fewer places than names
    for (int step = 0; step < 6; ++step) {
      train_step(world, {"a", "b"});
      train_step(world, {"a", "step" + std::to_string(step), "c", "d"});
      if (step % 2 == 0) train_step(world, {"c", "b", "e", "f", "g"});
    }
    for (int rank = 1; rank < 3; ++rank) ASSERT_EQ(world.launches(rank), world.launches(0));
  }
}

TEST(Negotiation, TransientNamesLeaveNothingBehind) {
  World world(2);
  for (int i = 0; i < 100; ++i) {
    for (int rank = 0; rank < 2; ++rank)
      world.submit(rank, "unnamed." + std::to_string(i % 2), shape({i}), false, true);
    world.deliver_all();
  }
  EXPECT_EQ(world.launches(1).size(), 100U);
}

TEST(Negotiation, ARankThatLeavesFailsWhatOthersWaitFor) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 3; ++step) train_step(world, {"a", "b"});
    world.submit(0, "a");
    world.submit(1, "a");
    world.submit(0, "b");
    world.submit(2, "a");  // rank 2 goes with this one submitted: it still runs
    world.leave(2);
    world.deliver_all();
    world.submit(1, "b");  // comes too late
    world.wait_begins(1, "a");
    world.deliver_all();
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(world.idle(rank)) << "rank " << rank << " hangs, seed " << seed;
      const Status& status = world.failures(rank)["b"];
      EXPECT_EQ(status.code(), StatusCode::kPeerLost);
      EXPECT_THAT(status.message(),
                  HasSubstr("rank 2 shut kolo down or exited before submitting tensor 'b'"));
      EXPECT_FALSE(world.closed(rank));
    }
    EXPECT_THAT(world.launches(2).back(), testing::ElementsAre("a"));
    world.leave(0);
    world.leave(1);
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(world.closed(rank));
  }
}

// --- join ---

TEST(Negotiation, JoinedRanksStandInUntilAllHaveJoined) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    World world(3, seed);
    for (int step = 0; step < 4; ++step) train_step(world, {"a", "b"});
    const auto fused = world.launches(0).back();
    EXPECT_EQ(fused.size(), 2U);
    world.join(1);
    for (int step = 0; step < 2; ++step) {
      for (const int rank : {0, 2}) {
        world.submit(rank, "b");
        world.submit(rank, "a");
        world.submit(rank, "new");  // rank 1 has never seen it
        world.submit(rank, "once" + std::to_string(step), shape({4}), false, true);
      }
      for (const int rank : {0, 2}) world.wait_begins(rank, "a");
      world.deliver_all();
      for (const int rank : {0, 2}) ASSERT_TRUE(world.idle(rank)) << "seed " << seed;
    }
    EXPECT_EQ(world.stand_ins(1), 8);
    EXPECT_EQ(world.last_joined(1), -1);
    world.join(0);
    world.submit(2, "a");
    world.submit(2, "b");
    world.wait_begins(2, "b");
    world.deliver_all();
    ASSERT_TRUE(world.idle(2));
    world.join(2);
    world.deliver_all();
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(world.idle(rank));
      EXPECT_EQ(world.last_joined(rank), 2);
      ASSERT_EQ(world.launches(rank), world.launches(0));
    }
    for (int step = 0; step < 2; ++step) train_step(world, {"a", "b", "new"});
  }
}

// What a rank submitted before it joined is its own; what it held back is let go.
TEST(Negotiation, ARankMayJoinWithOperationsInFlight) {
  World world(2);
  for (int step = 0; step < 4; ++step) train_step(world, {"a", "b"});
  world.submit(1, "a");
  world.join(1);
  world.submit(0, "a");
  world.submit(0, "b");
  world.wait_begins(0, "a");
  world.deliver_all();
  EXPECT_TRUE(world.idle(0));
  EXPECT_EQ(world.stand_ins(1), 1) << "for b alone";
  world.join(0);
  world.deliver_all();
  EXPECT_EQ(world.last_joined(1), 0);
}

TEST(Negotiation, TheRootOfABroadcastMustNotHaveJoined) {
  World world(3);
  Descriptor from_1 = shape({4});
  from_1.kind = OpKind::kBroadcast;
  from_1.root = 1;
  world.join(1);
  for (const int rank : {0, 2}) world.submit(rank, "w", from_1);
  world.deliver_all();
  for (const int rank : {0, 2}) {
    EXPECT_THAT(world.failures(rank)["w"].message(), HasSubstr("its root, rank 1, has joined"));
  }
  EXPECT_FALSE(world.idle(1));
}

TEST(Negotiation, AJoinedRankAgreesWithWhateverTheOthersSubmit) {
  World world(3);
  for (const auto& extents : std::vector<std::vector<std::int64_t>>{{4}, {4}, {7}}) {
    if (extents[0] == 7) world.join(2);
    for (int rank = 0; rank < (extents[0] == 7 ? 2 : 3); ++rank)
      world.submit(rank, "a", shape(extents));
    world.deliver_all();
  }
  EXPECT_TRUE(world.idle(0));
  EXPECT_TRUE(world.failures(0).empty());
  world.submit(0, "a", shape({7}));
  world.submit(1, "a", shape({8}));
  world.deliver_all();
  EXPECT_THAT(world.failures(0)["a"].message(), HasSubstr("[8] on rank 1"));
}

TEST(Negotiation, HeldTensorsAreLetGoByFlush) {
  World world(2);
  for (int step = 0; step < 3; ++step) train_step(world, {"a", "b"});
  const Clock::time_point before = Clock::now();
  for (int rank = 0; rank < 2; ++rank) world.submit(rank, "a");
  world.deliver_all();
  EXPECT_FALSE(world.idle(0));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(world.participant(rank).flush(before), 0U) << "not that old";
    EXPECT_EQ(world.participant(rank).flush(Clock::now() + std::chrono::seconds(1)), 1U);
  }
  world.wait_begins(0, "a");
  world.wait_begins(1, "a");
  world.deliver_all();
  EXPECT_TRUE(world.idle(0));
  EXPECT_TRUE(world.idle(1));
}

TEST(Negotiation, ProtocolErrorsAreErrors) {
  Negotiator negotiator({{0, 1}, {}});
  EXPECT_FALSE(negotiator.handle(1, {wire::Ready{77, {}}}).is_ok());
  EXPECT_TRUE(negotiator.handle(1, {wire::Announce{"a", shape({1}), false, false}}).is_ok());
  EXPECT_FALSE(negotiator.handle(1, {wire::Announce{"a", shape({1}), false, false}}).is_ok());
  Participant participant(1, 10);
  std::vector<Participant::Action> actions;
  EXPECT_FALSE(participant.apply({wire::Execute{3, {}}}, actions).is_ok());
  EXPECT_FALSE(participant.apply({wire::Assign{3, "x", {}, false}}, actions).is_ok());
  EXPECT_FALSE(participant.apply({wire::Evict{3}}, actions).is_ok());
  EXPECT_FALSE(participant.apply({wire::Bucket{4, {{3, 0}}}}, actions).is_ok());
}

TEST(RankList, IsShort) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({0, 1}), "ranks 0, 1");
  EXPECT_EQ(rank_list({0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9");
}

}  // namespace
}  // namespace kolo
