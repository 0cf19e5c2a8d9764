// Allreduces under many orders in which their ranks are stepped. One thread plays all ranks, so
// that a work that waits for ever is seen at once.
#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <random>

#include "collectives/local/transport.hpp"
#include "contract_values.hpp"

namespace kolo {
namespace {

// Watches that nobody touches what belongs to the transport. What is received is filled with noise
// at first.
class Watched final : public Transport {
 public:
  explicit Watched(Transport& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Tag max_tag() const override { return inner_.max_tag(); }
  Status send(const void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    const auto* first = static_cast<const std::byte*>(data);
    expect_free(first, bytes, false);
    Status status = inner_.send(data, bytes, peer, tag, ticket);
    under_way_[ticket.request] = {first, bytes, false, {first, first + bytes}};
    sent_ += bytes;
    return status;
  }
  Status receive(void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    auto* first = static_cast<std::byte*>(data);
    expect_free(first, bytes, true);
    std::fill_n(first, bytes, std::byte{0xA5});
    Status status = inner_.receive(data, bytes, peer, tag, ticket);
    under_way_[ticket.request] = {first, bytes, true, {first, first + bytes}};
    return status;
  }
  Progress poll(Ticket& ticket, Status& status) override {
    const Range& range = under_way_.at(ticket.request);
    EXPECT_TRUE(std::equal(range.was.begin(), range.was.end(), range.first)) << "touched";
    const std::int32_t request = ticket.request;
    const Progress progress = inner_.poll(ticket, status);
    if (progress != Progress::kWaiting) under_way_.erase(request);
    return progress;
  }
  int world_peer(const Ticket& ticket) const override { return inner_.world_peer(ticket); }
  Status probe(Tag tag, std::optional<Arrival>& arrival) override {
    return inner_.probe(tag, arrival);
  }

  bool idle() const { return under_way_.empty(); }
  std::size_t sent() const { return sent_; }  // bytes

 private:
  struct Range {
    const std::byte* first;
    std::size_t bytes;
    bool received;
    std::vector<std::byte> was;
  };

  // Two may be sent from the same place at once.
  void expect_free(const std::byte* first, std::size_t bytes, bool receives) const {
    EXPECT_GT(bytes, 0U);
    for (const auto& [number, other] : under_way_) {
      const bool apart = first + bytes <= other.first || other.first + other.bytes <= first;
      EXPECT_TRUE(apart || (!receives && !other.received)) << "two messages in one place";
    }
  }

  Transport& inner_;
  std::map<std::int32_t, Range> under_way_;
  std::size_t sent_ = 0;
};

// A rank of a group that carries out allreduces one after the other, all with one tag.
struct Player {
  Player(Transport& of, std::size_t works) : transport(of), data(works) {}

  Watched transport;
  std::vector<std::vector<float>> data;
  std::size_t done = 0;
  std::unique_ptr<Work> work;
};

struct Plan {
  std::vector<contract::MakeAllreduce*> algorithms;
  std::vector<std::size_t> counts;
  std::size_t chunk_bytes;
};

Plan random_plan(std::mt19937& random) {
  Plan plan;
  plan.chunk_bytes = random() % 2 == 0 ? 64 : 300;
  for (int i = 0; i < 3; ++i) {
    contract::MakeAllreduce* const all[] = {make_recursive_doubling_allreduce,
                                            make_halving_doubling_allreduce, make_ring_allreduce,
                                            make_tree_allreduce};
    plan.algorithms.push_back(all[random() % 4]);
    plan.counts.push_back(random() % 3 == 0 ? random() % 20 : random() % 1500);
  }
  return plan;
}

// Whether anything moved.
bool step(Player& player, const Plan& plan) {
  if (player.done == plan.counts.size()) return false;
  if (player.work == nullptr) {
    std::vector<float>& data = player.data[player.done];
    data.resize(plan.counts[player.done]);
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<float>(contract::value(player.transport.rank(), i + player.done));
    player.work = plan.algorithms[player.done](player.transport, 7, data.data(), data.size(),
                                               Reduction{}, plan.chunk_bytes);
    EXPECT_TRUE(player.work->start().is_ok());
  }
  Status status;
  const Progress progress = player.work->step(status);
  EXPECT_NE(progress, Progress::kFailed) << status.message();
  if (progress == Progress::kDone) {
    EXPECT_TRUE(player.transport.idle());
    player.work.reset();
    ++player.done;
  }
  return progress == Progress::kDone || progress == Progress::kAdvanced;
}

void check(const Player& player, const Plan& plan) {
  ASSERT_EQ(player.done, plan.counts.size()) << "rank " << player.transport.rank() << " waits";
  for (std::size_t work = 0; work < plan.counts.size(); ++work) {
    for (std::size_t i = 0; i < plan.counts[work]; ++i) {
      ASSERT_EQ(player.data[work][i],
                contract::expected(player.transport.size(), i + work, ReduceOp::Sum))
          << "element " << i << " of rank " << player.transport.rank();
    }
  }
}

// Ranks are stepped at random, one of them seldom, until all have ended or nothing has moved for a
// long time. Returns what each has sent.
std::vector<std::size_t> play(int size, const Plan& plan, std::mt19937& random) {
  auto transports = make_local_transports(size);
  std::deque<Player> players;
  for (const auto& transport : transports) players.emplace_back(*transport, plan.counts.size());
  const std::size_t slow = random() % players.size();
  const std::size_t patience = players.size() * 400;
  const auto ended = [&](const Player& player) { return player.done == plan.counts.size(); };
  for (std::size_t still = 0; still < patience; ++still) {
    if (std::all_of(players.begin(), players.end(), ended)) break;
    const std::size_t rank = random() % players.size();
    if (rank == slow && random() % 20 != 0) continue;
    if (step(players[rank], plan)) still = 0;
  }
  std::vector<std::size_t> sent;
  for (const Player& player : players) {
    check(player, plan);
    sent.push_back(player.transport.sent());
  }
  return sent;
}

TEST(AllreduceSchedules, EveryOneEnds) {
  for (int size = 1; size <= 20; ++size) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(std::to_string(size) + " ranks, seed " + std::to_string(seed));
      std::mt19937 random(seed * 100 + static_cast<unsigned>(size));
      play(size, random_plan(random), random);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(AllreduceSchedules, OfManyRanks) {
  std::mt19937 random(1);
  for (const int size : {31, 32, 33, 64, 100}) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    for (int i = 0; i < 2; ++i) play(size, random_plan(random), random);
  }
}

// As docs/architecture.md says.
TEST(AllreduceSchedules, BytesSent) {
  std::mt19937 random(1);
  constexpr std::size_t kCount = 16 * 32;  // a line for each of 32 ranks
  constexpr std::size_t kBytes = kCount * sizeof(float);
  for (int size = 2; size <= 32; ++size) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    const auto ranks = static_cast<std::size_t>(size);
    const auto tree = play(size, {{make_tree_allreduce}, {kCount}, 64}, random);
    EXPECT_EQ(std::accumulate(tree.begin(), tree.end(), std::size_t{0}), 2 * kBytes * (ranks - 1));
    EXPECT_LE(*std::max_element(tree.begin(), tree.end()), 2 * kBytes);
    const auto halving = play(size, {{make_halving_doubling_allreduce}, {kCount}, 64}, random);
    const std::size_t power = std::bit_floor(ranks);
    const std::size_t halved = 2 * kBytes * (power - 1) / power;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const bool paired = rank < 2 * (ranks - power);
      EXPECT_EQ(halving[rank], !paired ? halved : kBytes + (rank % 2 == 0 ? halved : 0));
    }
  }
}

}  // namespace
}  // namespace kolo
