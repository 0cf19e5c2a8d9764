// Data of more bytes than 32 bits count: whether every byte goes where it belongs, once. The memory
// is only reserved, for no message is copied here.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/contract.hpp"

namespace kolo {
namespace {

constexpr std::size_t kBytes = (std::size_t{1} << 32) + 11;
constexpr std::size_t kChunk = std::size_t{1} << 22;

// Notes what is to be sent and received; everything is done at once.
class NotingTransport final : public Transport {
 public:
  explicit NotingTransport(int rank) : rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  Tag max_tag() const override { return 100; }
  Status send(const void* data, std::size_t bytes, int peer, Tag /*tag*/, Ticket& ticket) override {
    return note(sent, data, bytes, peer, ticket);
  }
  Status receive(void* data, std::size_t bytes, int peer, Tag /*tag*/, Ticket& ticket) override {
    return note(received, data, bytes, peer, ticket);
  }
  Progress poll(Ticket& ticket, Status& status) override {
    ticket = {};
    status = Status::ok();
    return Progress::kDone;
  }
  int world_peer(const Ticket& /*ticket*/) const override { return 1 - rank_; }
  Status probe(Tag /*tag*/, std::optional<Arrival>& /*arrival*/) override { return Status::ok(); }

  struct Piece {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Piece> sent;
  std::vector<Piece> received;

 private:
  Status note(std::vector<Piece>& pieces, const void* data, std::size_t bytes, int peer,
              Ticket& ticket) {
    EXPECT_EQ(peer, 1 - rank_);
    EXPECT_LE(bytes, kChunk);
    pieces.push_back({static_cast<const std::byte*>(data), bytes});
    ticket.request = 0;
    return Status::ok();
  }

  const int rank_;
};

class Reserved {
 public:
  explicit Reserved(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Reserved() {
    if (data_ != MAP_FAILED) munmap(data_, bytes_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;

  std::byte* data() const { return data_ == MAP_FAILED ? nullptr : static_cast<std::byte*>(data_); }

 private:
  const std::size_t bytes_;
  void* const data_;
};

// Whether the pieces are `bytes` from `begin` on, in order and without a gap.
void expect_covers(const std::vector<NotingTransport::Piece>& pieces, const std::byte* begin,
                   std::size_t bytes) {
  std::size_t at = 0;
  for (const NotingTransport::Piece& piece : pieces) {
    ASSERT_EQ(piece.begin, begin + at);
    at += piece.bytes;
  }
  EXPECT_EQ(at, bytes);
}

class Large : public testing::Test {
 protected:
  void SetUp() override {
    if (memory_.data() == nullptr) GTEST_SKIP() << "the system gives no 9 GB of address space";
  }
  std::byte* data() const { return memory_.data(); }

 private:
  const Reserved memory_{2 * kBytes + 100};
};

TEST_F(Large, Broadcast) {
  NotingTransport root(0);
  ASSERT_TRUE(contract::run(*make_broadcast(root, 2, data(), kBytes, 0, kChunk)).is_ok());
  expect_covers(root.sent, data(), kBytes);
  NotingTransport leaf(1);
  ASSERT_TRUE(contract::run(*make_broadcast(leaf, 2, data(), kBytes, 0, kChunk)).is_ok());
  expect_covers(leaf.received, data(), kBytes);
}

TEST_F(Large, Transfer) {
  NotingTransport from(0);
  ASSERT_TRUE(contract::run(*make_transfer(from, 2, data(), kBytes, 1, true, kChunk)).is_ok());
  expect_covers(from.sent, data(), kBytes);
  NotingTransport to(1);
  ASSERT_TRUE(contract::run(*make_transfer(to, 2, data(), kBytes, 0, false, kChunk)).is_ok());
  expect_covers(to.received, data(), kBytes);
}

TEST_F(Large, Allgather) {
  for (const int rank : {0, 1}) {
    NotingTransport transport(rank);
    const std::vector<std::size_t> boundaries = {0, kBytes, 2 * kBytes + 7};
    ASSERT_TRUE(contract::run(*make_allgather(transport, 2, data(), boundaries, kChunk)).is_ok());
    const auto own = static_cast<std::size_t>(rank);
    const std::size_t other = 1 - own;
    expect_covers(transport.sent, data() + boundaries[own], boundaries[own + 1] - boundaries[own]);
    expect_covers(transport.received, data() + boundaries[other],
                  boundaries[other + 1] - boundaries[other]);
  }
}

TEST_F(Large, Alltoall) {
  NotingTransport transport(0);
  const AlltoallSide from{data(), {0, 16, 16 + kBytes}};
  const AlltoallSide to{data() + 16 + kBytes, {0, 16, kBytes}};
  ASSERT_TRUE(contract::run(*make_alltoall(transport, 2, from, to, kChunk)).is_ok());
  expect_covers(transport.sent, data() + 16, kBytes);
  expect_covers(transport.received, data() + 16 + kBytes + 16, kBytes - 16);
}

}  // namespace
}  // namespace kolo
