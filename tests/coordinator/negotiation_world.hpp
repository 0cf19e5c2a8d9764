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

// An operation of another kind than an allreduce.
inline Descriptor described(OpKind kind, std::vector<std::int64_t> extents) {
  Descriptor d = shape(std::move(extents));
  d.kind = kind;
  return d;
}

inline Descriptor send_between(int source, int destination) {
  Descriptor d = described(OpKind::kSend, {4});
  d.root = source;
  d.destination = destination;
  return d;
}

inline std::vector<int> everyone(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The label of an operation in these tests, because operations of two kinds may have one name: "a"
// for an allreduce, a send or a process set named "a", and "allgather|a".
inline std::string label_of(OpKind kind, const std::string& name) {
  const bool plain =
      kind == OpKind::kAllreduce || kind == OpKind::kSend || kind == OpKind::kAddProcessSet;
  return plain ? name : std::string(name_of(kind)) + "|" + name;
}
inline std::string name_in(const std::string& label) {
  return label.substr(label.find('|') + 1);  // all of it where there is no kind
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
    histories_.resize(size);
    numbers_.resize(size);
    joins_.resize(size);
    in_flight_.resize(size);
    places_.resize(size);
    closed_.assign(size, false);
  }

  void submit(int rank, const std::string& name, const Descriptor& descriptor = shape({4}),
              bool absent = false, bool transient = false) {
    ASSERT_FALSE(busy(rank, name)) << "the test submits twice";
    const Participant::Token token = next_token_++;
    const Submitted& kept = in_flight_[rank][token] = {name, descriptor, transient};
    // As the mailbox knows it; here also of buckets that have ended since.
    const BucketPlace place = places_[rank][name];
    const std::string own_name = name_in(name);
    participants_[rank].submit(
        {token, own_name, kept.descriptor, absent, transient, Clock::now(), true, place});
    collect(rank);
  }
  // As the mailbox tells it; a join is a boundary by itself.
  void wait_begins(int rank, const std::string& name) {
    if (name != "join") participants_[rank].boundary();
    for (const auto& [token, submitted] : in_flight_[rank]) {
      if (submitted.name == name)
        participants_[rank].wanted(name_space_of(submitted.descriptor, submitted.transient),
                                   name_in(name));
    }
    collect(rank);
  }
  void join(int rank) {
    const Participant::Token token = next_token_++;
    in_flight_[rank][token] = {"join", {}, false};
    joins_[rank].push_back({launches_[rank].size(), {}, -1});
    participants_[rank].join(token);
    collect(rank);
  }
  int placeholders(int rank) const {
    std::size_t all = 0;
    for (const Join& join : joins_[rank]) all += join.stood_in.size();
    return static_cast<int>(all);
  }
  int last_joined(int rank) const { return joins_[rank].empty() ? -1 : joins_[rank].back().last; }
  void leave(int rank) {
    participants_[rank].leave();
    collect(rank);
  }
  bool busy(int rank, const std::string& name) const {
    const auto& flying = in_flight_[rank];
    return std::any_of(flying.begin(), flying.end(),
                       [&](const auto& f) { return f.second.name == name; });
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
      deliver_report(choice);
    } else {
      deliver_decision(-1 - choice);
    }
    return true;
  }
  // Reports are delivered at that time.
  void set_now(Clock::time_point now) { now_ = now; }
  std::size_t dissolved_buckets() const { return negotiator_.dissolved_buckets(); }
  std::vector<Stall> stalls(Clock::time_point before) const { return negotiator_.stalls(before); }
  void count_from(Clock::time_point now) { negotiator_.count_from(now); }
  void fail_different_kinds(Clock::time_point before) {
    negotiator_.fail_different_kinds(before);
    send_decisions();
  }
  void deliver_report(int rank) {
    const Status status = negotiator_.handle(rank, through_the_wire(take(reports_[rank])), now_);
    EXPECT_TRUE(status.is_ok()) << status.message();
    send_decisions();
  }
  void deliver_decision(int rank) { apply(rank, through_the_wire(take(decisions_[rank]))); }
  // All that is under way from the rank, or to it.
  void deliver_reports(int rank) {
    while (!reports_[rank].empty()) deliver_report(rank);
  }
  void deliver_decisions(int rank) {
    while (!decisions_[rank].empty()) deliver_decision(rank);
  }
  void deliver_all() {
    while (deliver_one()) {
    }
  }

  // By sequence number; empty for what is the affair of other ranks alone.
  const std::vector<std::vector<std::string>>& launches(int rank) const { return launches_[rank]; }
  // How each use of a name ended on the rank: "+ab" (launched together with b), "~ab" (likewise,
  // but with a stand-in, since the rank had joined) or "-" and why it failed.
  using History = std::map<std::string, std::vector<std::string>>;
  const History& history(int rank) const { return histories_[rank]; }
  struct Join {
    std::size_t launched = 0;           // how many launches the rank had seen before it
    std::vector<std::size_t> stood_in;  // the launches in which the rank gave a stand-in
    int last = -1;                      // what it was told
  };
  const std::vector<Join>& joins(int rank) const { return joins_[rank]; }
  // How many operations have a number on the rank, according to the decisions it was told.
  std::size_t numbers(int rank) const { return numbers_[rank].size(); }
  std::map<std::string, Status>& failures(int rank) { return failures_[rank]; }
  bool closed(int rank) const { return closed_[rank]; }
  Participant& participant(int rank) { return participants_[rank]; }
  std::mt19937& random() { return random_; }
  // What has been delivered.
  struct Traffic {
    std::size_t messages = 0;
    std::size_t bytes = 0;
    std::size_t longest = 0;  // message, in bytes
  };
  const Traffic& traffic() const { return traffic_; }
  void forget_traffic() { traffic_ = {}; }
  int size() const { return size_; }

 private:
  struct Submitted {
    std::string name;
    Descriptor descriptor;
    bool transient = false;
  };

  void send_decisions() {
    const wire::Decisions made = negotiator_.take_decisions();
    if (made.empty()) return;
    for (auto& queue : decisions_) queue.push_back(made);
  }

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
    ++traffic_.messages;
    traffic_.bytes += bytes.size();
    traffic_.longest = std::max(traffic_.longest, bytes.size());
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
    for (const wire::DecisionRecord& decision : decisions) count_numbers(rank, decision);
    for (const auto& action : actions) {
      if (const auto* launch = std::get_if<Participant::Launch>(&action)) record(rank, *launch);
      if (const auto* failure = std::get_if<Participant::Failure>(&action)) {
        const std::string name = end(rank, failure->token).name;
        failures_[rank][name] = failure->status;
        histories_[rank][name].push_back("-" + failure->status.message());
      }
      if (const auto* joined = std::get_if<Participant::Joined>(&action)) {
        end(rank, joined->token);
        joins_[rank].back().last = joined->last_rank;
      }
      if (const auto* bucket = std::get_if<Participant::BucketBegins>(&action)) {
        for (std::size_t i = 0; i < bucket->members.size(); ++i)
          places_[rank][bucket->members[i].name] = {bucket->bucket, i};
      }
      if (std::holds_alternative<Participant::Closed>(action)) closed_[rank] = true;
    }
    collect(rank);
  }
  Submitted end(int rank, Participant::Token token) {
    Submitted submitted = in_flight_[rank].at(token);
    in_flight_[rank].erase(token);
    return submitted;
  }
  void count_numbers(int rank, const wire::DecisionRecord& decision) {
    std::map<EntryId, bool>& numbers = numbers_[rank];
    if (const auto* assign = std::get_if<wire::Assign>(&decision))
      numbers[assign->id] = assign->transient;
    if (const auto* evict = std::get_if<wire::Evict>(&decision)) numbers.erase(evict->tensor);
    if (const auto* execute = std::get_if<wire::Execute>(&decision)) {
      const auto found = numbers.find(execute->entry);
      if (found != numbers.end() && found->second) numbers.erase(found);
    }
  }
  void record(int rank, const Participant::Launch& launch) {
    EXPECT_GE(launch.sequence, launches_[rank].size());
    launches_[rank].resize(launch.sequence);
    std::vector<std::string> names;
    std::vector<Submitted> members;
    std::string together;
    for (const Participant::Member& member : launch.members) {
      members.push_back(member.token == 0 ? Submitted{label_of(member.placeholder->descriptor.kind,
                                                               member.placeholder->name),
                                                      member.placeholder->descriptor, false}
                                          : end(rank, member.token));
      names.push_back(members.back().name + (member.absent_everywhere ? " (absent)" : ""));
      together += names.back();
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      const bool placeholder = launch.members[i].token == 0;
      histories_[rank][members[i].name].push_back((placeholder ? "~" : "+") + together);
      if (placeholder) joins_[rank].at(joins_[rank].size() - 1).stood_in.push_back(launch.sequence);
      const Descriptor& launched =
          launched_.emplace(std::pair(launch.sequence, i), members[i].descriptor).first->second;
      EXPECT_EQ(launched, members[i].descriptor) << "'" << names[i] << "' on rank " << rank;
    }
    launches_[rank].push_back(std::move(names));
  }

  const int size_;
  Clock::time_point now_;
  std::mt19937 random_;
  Negotiator negotiator_;
  std::vector<Participant> participants_;
  std::vector<std::deque<wire::Report>> reports_;
  std::vector<std::deque<wire::Decisions>> decisions_;
  std::vector<std::vector<std::vector<std::string>>> launches_;
  std::vector<std::map<std::string, Status>> failures_;
  std::vector<History> histories_;
  std::vector<std::map<EntryId, bool>> numbers_;  // and whether they hold for one execution alone
  std::vector<std::vector<Join>> joins_;
  std::vector<std::map<Participant::Token, Submitted>> in_flight_;
  std::vector<bool> closed_;
  // What the first rank has launched, by sequence and position.
  std::map<std::pair<std::size_t, std::size_t>, Descriptor> launched_;
  std::vector<std::map<std::string, BucketPlace>> places_;
  Participant::Token next_token_ = 1;
  Traffic traffic_;
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
