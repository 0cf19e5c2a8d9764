// Collectives over messages in which one rank takes no part: which rank do the others name?
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/algorithms/tickets.hpp"
#include "collectives/local/transport.hpp"
#include "collectives/subset/transport.hpp"
#include "gtest/gtest.h"

namespace kolo {
namespace {

constexpr std::size_t kCount = 4096;  // floats, in messages of kChunk bytes
constexpr std::size_t kChunk = 1024;

using Make = std::function<std::unique_ptr<Work>(Transport&, std::vector<float>& data)>;

struct Kind {
  std::string name;
  Make make;
  // Whether a rank waits for one other at a time. In the double tree it waits for several, names
  // one of them, and may be named by that one.
  bool one_at_a_time = true;
};

std::vector<std::size_t> even_boundaries(const Transport& transport, std::size_t total) {
  std::vector<std::size_t> boundaries;
  const auto ranks = static_cast<std::size_t>(transport.size());
  for (std::size_t i = 0; i <= ranks; ++i) boundaries.push_back(total / ranks * i);
  return boundaries;
}

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  const auto add_allreduce = [&](const char* name, auto* make) {
    all.push_back({name, [make](Transport& transport, std::vector<float>& data) {
                     return make(transport, 1, data.data(), kCount, Reduction{}, kChunk);
                   }});
  };
  add_allreduce("ring", make_ring_allreduce);
  add_allreduce("tree", make_tree_allreduce);
  all.back().one_at_a_time = false;
  add_allreduce("halving and doubling", make_halving_doubling_allreduce);
  add_allreduce("recursive doubling", make_recursive_doubling_allreduce);
  all.push_back({"broadcast", [](Transport& transport, std::vector<float>& data) {
                   return make_broadcast(transport, 1, data.data(), kCount * 4, 0, kChunk);
                 }});
  all.push_back({"allgather", [](Transport& transport, std::vector<float>& data) {
                   return make_allgather(transport, 1, data.data(),
                                         even_boundaries(transport, kCount), kChunk);
                 }});
  all.push_back({"reducescatter", [](Transport& transport, std::vector<float>& data) {
                   return make_reducescatter(transport, 1, data.data(),
                                             even_boundaries(transport, kCount), Reduction{},
                                             kChunk);
                 }});
  all.push_back({"alltoall", [](Transport& transport, std::vector<float>& data) {
                   const auto boundaries = even_boundaries(transport, kCount * 4);
                   return make_alltoall(transport, 1, {data.data(), boundaries},
                                        {data.data() + kCount, boundaries}, kChunk);
                 }});
  return all;
}

// Steps the works of all ranks but one until nothing moves any more, and returns for each rank
// whether it waits, and for whom.
struct Waiting {
  bool waits = false;
  std::optional<int> for_rank;
};

std::vector<Waiting> run_without(int missing, const std::vector<Transport*>& transports,
                                 const Make& make) {
  const std::size_t size = transports.size();
  std::vector<std::vector<float>> data(size, std::vector<float>(2 * kCount, 1.0F));
  std::vector<std::unique_ptr<Work>> works(size);
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (static_cast<int>(rank) == missing) continue;
    works[rank] = make(*transports[rank], data[rank]);
    EXPECT_TRUE(works[rank]->start().is_ok());
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& work : works) {
      if (work == nullptr) continue;
      Status status;
      const Progress progress = work->step(status);
      EXPECT_NE(progress, Progress::kFailed) << status.message();
      if (progress == Progress::kDone) work.reset();
      moved = moved || progress != Progress::kWaiting;
    }
  }
  std::vector<Waiting> all(size);
  for (std::size_t rank = 0; rank < size; ++rank)
    if (works[rank] != nullptr) all[rank] = {true, works[rank]->waits_for()};
  return all;
}

// Follows the chain from a waiting rank to the one that it names, and so on.
void expect_to_lead_to(int missing, const std::vector<Waiting>& all, int rank) {
  std::string path = std::to_string(rank);
  for (std::size_t steps = 0; steps < all.size(); ++steps) {
    const Waiting& at = all[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(at.waits && at.for_rank) << path << " does not say for whom it waits";
    rank = *at.for_rank;
    path += " waits for " + std::to_string(rank);
    if (rank == missing) return;
  }
  ADD_FAILURE() << path;
}

TEST(WaitsFor, LeadsToTheRankThatTakesNoPart) {
  for (const Kind& kind : kinds()) {
    for (int size = 2; size <= 5; ++size) {
      for (int missing = 0; missing < size; ++missing) {
        SCOPED_TRACE(kind.name + ", rank " + std::to_string(missing) + " of " +
                     std::to_string(size) + " is missing");
        const auto owners = make_local_transports(size);
        std::vector<Transport*> transports;
        for (const auto& owner : owners) transports.push_back(owner.get());
        const std::vector<Waiting> all = run_without(missing, transports, kind.make);
        bool missed = false;
        for (int rank = 0; rank < size; ++rank) {
          const Waiting& waiting = all[static_cast<std::size_t>(rank)];
          if (!waiting.waits) continue;
          missed = missed || waiting.for_rank == missing;
          EXPECT_TRUE(waiting.for_rank && *waiting.for_rank != rank) << "rank " << rank;
          if (kind.one_at_a_time) expect_to_lead_to(missing, all, rank);
        }
        EXPECT_TRUE(missed);
      }
    }
  }
}

TEST(WaitsFor, IsARankOfTheWorld) {
  const auto world = make_local_transports(4);
  const std::vector<int> members = {1, 3};
  const auto first = make_subset_transport(*world[1], members, 0);
  const auto second = make_subset_transport(*world[3], members, 0);
  const auto all = run_without(1, {first.get(), second.get()}, kinds().front().make);
  EXPECT_EQ(all[0].for_rank, 3);
}

TEST(WaitsFor, ASenderComesBeforeAReceiver) {
  const auto transports = make_local_transports(3);
  std::vector<float> sent(kCount);
  std::vector<float> received(kCount);
  std::deque<Ticket> sends(1);
  std::deque<Ticket> receives(2);  // the first one is of an empty message
  ASSERT_TRUE(transports[0]->send(sent.data(), kCount * 4, 2, 1, sends[0]).is_ok());
  EXPECT_EQ(oldest_peer(*transports[0], {}, sends), 2);
  ASSERT_TRUE(transports[0]->receive(received.data(), kCount * 4, 1, 1, receives[1]).is_ok());
  EXPECT_EQ(oldest_peer(*transports[0], receives, sends), 1);
  EXPECT_EQ(oldest_peer(*transports[0], {}, {}), std::nullopt);
}

TEST(WaitsFor, ATransferNamesItsPeer) {
  const auto transports = make_local_transports(2);
  std::vector<float> data(kCount);
  for (const bool sending : {false, true}) {
    const auto work = make_transfer(*transports[0], 1, data.data(), kCount * 4, 1, sending, kChunk);
    ASSERT_TRUE(work->start().is_ok());
    Status status;
    work->step(status);
    EXPECT_EQ(work->waits_for(), 1) << (sending ? "sending" : "receiving");
  }
}

}  // namespace
}  // namespace kolo
