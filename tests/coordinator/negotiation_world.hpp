// Both halves of the control plane against each other, without threads or MPI: messages lie in
// queues and a seeded generator says whose is next.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "coordinator/negotiator.hpp"
#include "coordinator/participant.hpp"

namespace kolo {

inline Descriptor shape(std::vector<std::int64_t> extents, DType dtype = DType::kFloat32) {
  Descriptor d;
  d.tensors = {{dtype, std::move(extents)}};
  return d;
}

inline std::vector<int> everyone(int size) {
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
inline void train_step(World& world, const std::vector<std::string>& names) {
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

}  // namespace kolo
