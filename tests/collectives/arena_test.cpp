#include "collectives/shm/arena.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace kolo::shm {
namespace {

constexpr std::size_t kMiB = 1 << 20;

std::unique_ptr<Arena> make_arena(std::size_t capacity) {
  std::unique_ptr<Arena> arena;
  const Status status = Arena::create(2 * Arena::kPage, capacity, arena);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return arena;
}

// Of the segment, as the kernel counts them.
std::size_t resident_pages(const Arena& arena) {
  std::vector<unsigned char> present(arena.segment().size() / Arena::kPage);
  EXPECT_EQ(mincore(arena.segment().data(), arena.segment().size(), present.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(present.begin(), present.end(), [](unsigned char p) { return (p & 1) != 0; }));
}

TEST(Arena, LeavesSmallBlocksToOthers) {
  const auto arena = make_arena(4 * kMiB);
  EXPECT_EQ(arena->allocate(0), nullptr);
  EXPECT_EQ(arena->allocate(Arena::kSmallest - 1), nullptr);
  EXPECT_EQ(arena->statistics().refusals, 0U) << "too small is no refusal";
  void* block = arena->allocate(Arena::kSmallest);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % Arena::kPage, 0U);
  EXPECT_TRUE(arena->owns(block));
  EXPECT_FALSE(arena->owns(&arena));
  arena->free(block);
}

TEST(Arena, SaysWhereARangeLies) {
  const auto arena = make_arena(4 * kMiB);
  auto* block = static_cast<std::byte*>(arena->allocate(kMiB));
  const std::size_t at = static_cast<std::size_t>(block - arena->segment().data());
  EXPECT_EQ(arena->offset_of(block + 100, 10), at + 100);
  EXPECT_EQ(arena->offset_of(arena->segment().data(), 4 * kMiB), 0U);
  EXPECT_EQ(arena->offset_of(block, 4 * kMiB + Arena::kAside + 8193), std::nullopt);
  EXPECT_EQ(arena->offset_of(&at, 1), std::nullopt);
  arena->free(block);
}

// The point of it all: what is freed is given out again with its pages.
TEST(Arena, KeepsPages) {
  const auto arena = make_arena(64 * kMiB);
  void* const first = arena->allocate(16 * kMiB);
  EXPECT_GE(resident_pages(*arena), 16 * kMiB / Arena::kPage) << "taken at once";
  arena->free(first);
  EXPECT_EQ(arena->statistics().allocated, 0U);
  EXPECT_GE(arena->statistics().kept, 16 * kMiB);
  EXPECT_EQ(arena->allocate(16 * kMiB), first);
  EXPECT_EQ(arena->statistics().peak, 16 * kMiB);
  arena->free(first);
}

TEST(Arena, GivesPagesBackWhenAsked) {
  const auto arena = make_arena(64 * kMiB);
  void* const kept = arena->allocate(4 * kMiB);
  void* const freed = arena->allocate(16 * kMiB);
  std::memset(kept, 7, 4 * kMiB);
  std::memset(freed, 7, 16 * kMiB);
  arena->free(freed);
  EXPECT_GE(arena->trim(), 16 * kMiB);
  EXPECT_EQ(arena->statistics().kept, 0U);
  const std::size_t resident = resident_pages(*arena);
  EXPECT_GE(resident, 4 * kMiB / Arena::kPage);
  // The system may give huge pages, and keeps those of which something is in use.
  EXPECT_LE(resident, 8 * kMiB / Arena::kPage);
  EXPECT_EQ(arena->trim(), 0U) << "nothing is left to give";
  EXPECT_EQ(static_cast<unsigned char*>(kept)[4 * kMiB - 1], 7);
  auto* again = static_cast<unsigned char*>(arena->allocate(16 * kMiB));
  EXPECT_EQ(again[5], 0) << "a new page";
  arena->free(again);
  arena->free(kept);
}

// Frees a block when its thread ends, after all that was made later.
struct LateFree {
  ~LateFree() {
    if (block != nullptr) arena->free(block);
  }
  Arena* arena = nullptr;
  void* block = nullptr;
};

TEST(Arena, AThreadMayFreeWhileItEnds) {
  const auto arena = make_arena(64 * kMiB);
  for (int i = 0; i < 3; ++i) {
    void* const block = arena->allocate(kMiB);
    std::thread([&] {
      thread_local LateFree late;
      late.arena = arena.get();
      late.block = block;
      arena->free(arena->allocate(kMiB));  // from here on this thread keeps blocks
    }).join();
    EXPECT_EQ(arena->statistics().allocated, 0U);
    EXPECT_EQ(arena->statistics().allocations, 2U * (static_cast<unsigned>(i) + 1));
  }
}

TEST(Arena, CountsWhatAllThreadsDo) {
  const auto arena = make_arena(64 * kMiB);
  const auto other = make_arena(64 * kMiB);
  constexpr std::size_t kThreads = 4;
  std::vector<void*> kept(kThreads);
  std::vector<std::thread> threads;
  for (void*& mine : kept) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        mine = arena->allocate(64 << 10);
        if (i == 50) other->free(other->allocate(64 << 10));
        if (i < 99) arena->free(mine);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena->statistics().allocations, 100 * kThreads);
  EXPECT_EQ(arena->statistics().allocated, kThreads * (64 << 10));
  EXPECT_EQ(other->statistics().allocations, kThreads);
  EXPECT_EQ(other->statistics().allocated, 0U);
  for (void* block : kept) arena->free(block);
  EXPECT_EQ(arena->statistics().allocated, 0U);
}

// What other threads keep is room, too.
TEST(Arena, RoomIsWhatIsNotInUse) {
  const auto arena = make_arena(16 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(arena->allocate(kMiB));
  for (void* block : blocks) arena->free(block);  // this thread keeps them
  void* const large = arena->allocate(15 * kMiB);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(arena->allocate(2 * kMiB), nullptr);
  arena->free(large);
}

TEST(Arena, HasRoomForStagingWhateverTheProgramTakes) {
  const auto arena = make_arena(4 * kMiB);
  std::vector<void*> blocks;
  while (void* block = arena->allocate(kMiB)) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), 4U);
  EXPECT_EQ(arena->statistics().capacity, 4 * kMiB);
  for (int i = 0; i < 64; ++i) {
    blocks.push_back(arena->allocate_staging(2 * kMiB));
    ASSERT_NE(blocks.back(), nullptr);
    std::memset(blocks.back(), 1, 2 * kMiB);
  }
  EXPECT_EQ(arena->allocate(kMiB), nullptr);
  for (void* block : blocks) arena->free(block);
  EXPECT_EQ(arena->statistics().allocated, 0U);
}

TEST(Arena, JoinsWhatIsFreeAndSplitsIt) {
  const auto arena = make_arena(16 * kMiB);
  std::vector<void*> blocks;
  while (void* block = arena->allocate(2 * kMiB)) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), 8U) << "all of the capacity can be used";
  EXPECT_EQ(arena->statistics().refusals, 1U);
  // Every other one first, so that neighbours on both sides are joined.
  for (const std::size_t start : {0U, 1U}) {
    for (std::size_t i = start; i < blocks.size(); i += 2) arena->free(blocks[i]);
  }
  void* const most = arena->allocate(14 * kMiB);
  EXPECT_NE(most, nullptr);
  void* const rest = arena->allocate(2 * kMiB);
  EXPECT_NE(rest, nullptr);
  EXPECT_EQ(arena->allocate(Arena::kSmallest), nullptr);
  arena->free(most);
  arena->free(rest);
}

TEST(Arena, TooLargeIsRefused) {
  const auto arena = make_arena(4 * kMiB);
  EXPECT_EQ(arena->allocate(4 * kMiB + 1), nullptr);
  EXPECT_EQ(arena->allocate(~std::size_t{0}), nullptr);
  EXPECT_EQ(arena->statistics().refusals, 2U);
  void* all = arena->allocate(4 * kMiB);
  EXPECT_NE(all, nullptr);
  arena->free(all);
}

TEST(Arena, BlocksFromAThreadThatHasEndedAreFreeAgain) {
  const auto arena = make_arena(4 * kMiB);
  std::thread([&] { arena->free(arena->allocate(kMiB)); }).join();
  void* all = arena->allocate(4 * kMiB);
  EXPECT_NE(all, nullptr);
  arena->free(all);
}

// Threads allocate, write, hand over to each other, check and free.
TEST(Arena, ManyThreads) {
  const auto arena = make_arena(256 * kMiB);
  struct Block {
    unsigned char* data;
    std::size_t bytes;
    unsigned char mark;
  };
  std::mutex mutex;
  std::deque<Block> shared;
  std::atomic<int> wrong{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < 3000; ++round) {
      const std::size_t bytes =
          Arena::kSmallest + random() % (random() % 8 == 0 ? 2 * kMiB : 200'000);
      Block block{static_cast<unsigned char*>(arena->allocate(bytes)), bytes,
                  static_cast<unsigned char>(random())};
      if (block.data == nullptr) continue;
      for (std::size_t i = 0; i < bytes; i += 1111) block.data[i] = block.mark;
      block.data[bytes - 1] = block.mark;
      {
        const std::lock_guard lock(mutex);
        shared.push_back(block);
        if (shared.size() < 20) continue;
        const std::size_t which = random() % shared.size();
        block = shared[which];
        shared.erase(shared.begin() + static_cast<std::ptrdiff_t>(which));
      }
      bool right = block.data[block.bytes - 1] == block.mark;
      for (std::size_t i = 0; i < block.bytes; i += 1111)
        right = right && block.data[i] == block.mark;
      if (!right) ++wrong;
      arena->free(block.data);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  for (const Block& block : shared) arena->free(block.data);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(arena->statistics().allocated, 0U);
  EXPECT_EQ(arena->statistics().refusals, 0U);
}

// --- fork ---

int exit_code_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Arena, AChildChangesNothingOfItsParents) {
  const auto arena = make_arena(16 * kMiB);
  auto* block = static_cast<unsigned char*>(arena->allocate(kMiB));
  std::memset(block, 1, kMiB);
  arena->before_fork();
  const pid_t child = fork();
  if (child == 0) {
    if (!arena->after_fork_in_child()) _exit(2);
    if (block[77] != 1) _exit(3);  // sees what was there
    std::memset(block, 9, kMiB);
    if (block[77] != 9) _exit(4);
    if (arena->allocate(kMiB) != nullptr) _exit(5);
    arena->free(block);
    _exit(0);
  }
  arena->after_fork_in_parent();
  EXPECT_EQ(exit_code_of(child), 0);
  EXPECT_EQ(std::count(block, block + kMiB, 1), static_cast<std::ptrdiff_t>(kMiB));
  void* const other = arena->allocate(kMiB);
  EXPECT_NE(other, block) << "the child's free() is its own";
  arena->free(other);
  arena->free(block);
}

// Whose memory is used for something else there.
TEST(Arena, AChildForgetsWhatOtherThreadsKeep) {
  const auto arena = make_arena(16 * kMiB);
  void* const block = arena->allocate(kMiB);
  std::promise<void> keeps;
  std::promise<void> may_end;
  std::thread keeper([&] {
    arena->free(arena->allocate(512 << 10));
    keeps.set_value();
    may_end.get_future().wait();
  });
  keeps.get_future().wait();
  const std::size_t kept = arena->statistics().kept;
  arena->before_fork();
  const pid_t child = fork();
  if (child == 0) {
    if (!arena->after_fork_in_child()) _exit(2);
    const Arena::Statistics now = arena->statistics();
    if (now.allocations != 2 || now.allocated != kMiB) _exit(3);
    _exit(now.kept == kept - (512 << 10) ? 0 : 4);
  }
  arena->after_fork_in_parent();
  EXPECT_EQ(exit_code_of(child), 0);
  EXPECT_EQ(arena->statistics().kept, kept);
  may_end.set_value();
  keeper.join();
  arena->free(block);
}

TEST(Segment, ALimitOnFilesIsAnErrorAndNoSignal) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{kMiB, kMiB};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    std::unique_ptr<Arena> arena;
    const Status status = Arena::create(0, 2 * kMiB, arena);
    _exit(status.message().find("ulimit -f") != std::string::npos ? 0 : 3);
  }
  EXPECT_EQ(exit_code_of(child), 0);
}

TEST(Segment, AdoptsWhatIsShared) {
  Segment made;
  ASSERT_TRUE(Segment::create("kolo-test", kMiB, made).is_ok());
  Segment peer;
  ASSERT_TRUE(Segment::adopt(dup(made.descriptor()), peer).is_ok());
  ASSERT_EQ(peer.size(), kMiB);
  made.data()[5] = std::byte{3};
  EXPECT_EQ(peer.data()[5], std::byte{3});
  peer.data()[kMiB - 1] = std::byte{4};
  EXPECT_EQ(made.data()[kMiB - 1], std::byte{4});
}

TEST(Segment, RefusesWhatCanShrink) {
  const int descriptor = memfd_create("other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(descriptor, 4096), 0);
  Segment peer;
  const Status status = Segment::adopt(descriptor, peer);
  EXPECT_NE(status.message().find("not shared memory of kolo"), std::string::npos);
}

}  // namespace
}  // namespace kolo::shm
