#include "benchmarks/direct_read.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "benchmarks/tensors.hpp"
#include "collectives/reduce/combine.hpp"

namespace kolo::bench {
namespace {

// What has been read of the others' must be in the cache when it is added.
constexpr std::size_t kPieceBytes = 512 << 10;
constexpr std::size_t kPiece = kPieceBytes / sizeof(float);

constexpr int kLooks = 100;  // between two that also look whether the peer goes on

// A rank's, in the window: where its tensor is, how many pieces it has reduced, and how many it has
// whole.
struct Post {
  std::uint64_t process;
  std::uint64_t address;
  std::atomic<std::uint64_t> reduced;
  std::atomic<std::uint64_t> copied;
  std::atomic<bool> failed;
  std::array<std::uint64_t, 11> unused;  // nothing else is in its lines
};

class DirectRead final : public Contender {
 public:
  DirectRead(Group& group, std::size_t elements)
      : group_(group),
        tensors_({{"tensor", {static_cast<std::int64_t>(elements)}}}, Memory::kPrivate),
        window_(group.allocate_window(sizeof(Post) / sizeof(float))),
        read_(static_cast<std::size_t>(group.size() - 1) * std::min(kPiece, elements)) {}

  ~DirectRead() override { prctl(PR_SET_PTRACER, 0, 0, 0, 0); }

  // Collective.
  bool is_possible() {
    if (window_->by_rank().empty()) return false;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // unknown where Yama is not
    Post& mine = *new (window_->by_rank()[rank()]) Post{};
    mine.process = static_cast<std::uint64_t>(getpid());
    mine.address = reinterpret_cast<std::uint64_t>(data());
    group_.barrier();
    double failures = 0;
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      if (peer != rank() && !read(peer, 0, 1, read_.data())) failures = 1;
    }
    group_.largest(&failures, 1);
    return failures == 0;
  }

  std::string name() const override { return "direct-read"; }
  void refresh(const Pattern& pattern) override { tensors_.fill(pattern); }
  std::string check(const Pattern& pattern) override {
    return tensors_.check(pattern, group_.rank());
  }

  void run() override {
    const std::size_t elements = tensors_.elements();
    const std::uint64_t pieces = (elements + kPiece - 1) / kPiece;
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      if (piece == 0) wait_for_all(&Post::copied, done_);  // then nobody reads what was before
      reduce(piece);
      post(rank()).reduced.store(done_ + piece + 1, std::memory_order_release);
      if (piece > 0) fetch(piece - 1);
    }
    fetch(pieces - 1);
    done_ += pieces;
    post(rank()).copied.store(done_, std::memory_order_release);
    wait_for_all(&Post::copied, done_);
  }

 private:
  struct Share {
    std::size_t begin, end;
  };

  std::size_t rank() const { return static_cast<std::size_t>(group_.rank()); }
  std::size_t ranks() const { return static_cast<std::size_t>(group_.size()); }
  float* data() const { return tensors_.items().front().data(); }
  Post& post(std::size_t peer) const { return *reinterpret_cast<Post*>(window_->by_rank()[peer]); }

  Share share(std::uint64_t piece, std::size_t peer) const {
    const std::size_t begin = piece * kPiece;
    const std::size_t count = std::min(kPiece, tensors_.elements() - begin);
    return {begin + count * peer / ranks(), begin + count * (peer + 1) / ranks()};
  }

  bool read(std::size_t peer, std::size_t begin, std::size_t end, float* to) const {
    const std::size_t bytes = (end - begin) * sizeof(float);
    const std::uint64_t from = post(peer).address + begin * sizeof(float);
    const iovec here{to, bytes};
    const iovec there{reinterpret_cast<void*>(from), bytes};  // NOLINT: in that process
    const ssize_t done =
        process_vm_readv(static_cast<pid_t>(post(peer).process), &here, 1, &there, 1, 0);
    return done == static_cast<ssize_t>(bytes);
  }
  void must_read(std::size_t peer, std::size_t begin, std::size_t end, float* to) const {
    if (end == begin || read(peer, begin, end, to)) return;
    const std::string why = std::generic_category().message(errno);
    post(rank()).failed = true;
    throw ContenderFailed("process_vm_readv: " + why);
  }

  void wait_for_all(std::atomic<std::uint64_t> Post::*counter, std::uint64_t wanted) const {
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      for (int looks = 1; (post(peer).*counter).load(std::memory_order_acquire) < wanted; ++looks) {
        if (looks % kLooks != 0) continue;
        if (post(peer).failed) throw ContenderFailed("a peer could not read");
        sched_yield();  // there may be fewer cores than ranks
      }
    }
  }

  void reduce(std::uint64_t piece) {
    const auto [begin, end] = share(piece, rank());
    std::vector<const void*> sources;
    float* to = read_.data();
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      if (peer == rank()) {
        sources.push_back(data() + begin);
        continue;
      }
      must_read(peer, begin, end, to);
      sources.push_back(to);
      to += end - begin;
    }
    const Destination destination[] = {{data() + begin}};
    combine(sources, destination, end - begin, {});
  }

  void fetch(std::uint64_t piece) const {
    wait_for_all(&Post::reduced, done_ + piece + 1);
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      const auto [begin, end] = share(piece, peer);
      if (peer != rank()) must_read(peer, begin, end, data() + begin);
    }
  }

  Group& group_;  // outlives the benchmark's contenders
  const Tensors tensors_;
  const std::unique_ptr<Group::Window> window_;
  std::vector<float> read_;  // of the others' shares
  std::uint64_t done_ = 0;   // pieces of earlier runs
};

}  // namespace

std::unique_ptr<Contender> make_direct_read(Group& group, std::size_t elements) {
  auto made = std::make_unique<DirectRead>(group, elements);
  return made->is_possible() ? std::move(made) : nullptr;
}

}  // namespace kolo::bench
