// An allocator over one shared segment: the other ranks of the node can read and write its blocks
// in place. It keeps freed memory, so pages are faulted in once and not in each training step. For
// blocks of 32 KiB and more; smaller ones are left to malloc.
//
// Free ranges are kept in lists by size and joined with their neighbours, all in constant time:
// TLSF, Masmano and others, A New Dynamic Memory Allocator for Real-Time Systems, 2004. Threads
// keep a few blocks of up to 1 MiB for themselves, so that they seldom compete for the lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/shm/segment.hpp"
#include "core/thread_annotations.hpp"

namespace kolo::shm {

class Arena {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kSmallest = 32 << 10;  // bytes

  struct Statistics {             // in bytes, except the counts
    std::size_t capacity = 0;     // of address space, for the program
    std::size_t allocated = 0;    // in use by the program, rounded up to blocks
    std::size_t peak = 0;         // its maximum so far, with what threads kept
    std::size_t kept = 0;         // free, but with pages; also in threads' caches
    std::size_t allocations = 0;  // since the start
    std::size_t refusals = 0;     // of these, not served: memory was short
  };

  // Room beside the capacity, only for allocate_staging(): a program that has filled the arena
  // becomes slower but does not fail. Enough for the large collectives of 32 process sets.
  static constexpr std::size_t kAside = 256 << 20;  // bytes of address space

  // Makes an arena with address space for `reserved` and `capacity` bytes, multiples of kPage, and
  // kAside. Memory is taken as blocks are allocated. The reserved bytes come first in the segment,
  // are zero, and belong to the caller.
  static Status create(std::size_t reserved, std::size_t capacity, std::unique_ptr<Arena>& arena);

  // Every other thread that has used the arena must have ended.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // --- any thread ---

  // Allocates a block of at least that size, on a page boundary, with its pages in memory. Null if
  // it is smaller than kSmallest, if there is no memory, or if the capacity is used up. The caller
  // must then use another allocator.
  void* allocate(std::size_t bytes) KOLO_EXCLUDES(mutex_);
  // Allocates memory that must be shared, whatever the capacity. Null if it is smaller than
  // kSmallest, or there is no memory.
  void* allocate_staging(std::size_t bytes) KOLO_EXCLUDES(mutex_);
  void free(void* block) KOLO_EXCLUDES(mutex_);

  bool owns(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    return at >= segment_.data() && at < segment_.data() + segment_.size();
  }

  // Returns the offset of a range in the segment, or nothing if not all of it lies there.
  std::optional<std::size_t> offset_of(const void* data, std::size_t bytes) const;

  // Gives the pages of all free ranges back to the system, except those that threads keep for
  // themselves. Returns the number of bytes.
  std::size_t trim() KOLO_EXCLUDES(mutex_);

  Statistics statistics() const KOLO_EXCLUDES(mutex_);

  const Segment& segment() const { return segment_; }

  // --- around fork(), called by what pthread_atfork() registers ---
  // In the child the arena becomes private memory, page by page as the child writes. The child sees
  // the old contents, changes nothing of its parent's, and allocates nothing here any more.
  void before_fork() KOLO_ATTRIBUTE(acquire_capability(mutex_)) { mutex_.lock(); }
  void after_fork_in_parent() KOLO_ATTRIBUTE(release_capability(mutex_)) { mutex_.unlock(); }
  bool after_fork_in_child() KOLO_ATTRIBUTE(release_capability(mutex_));

 private:
  class ThreadCache;

  // Describes a range of pages, in the entry of its first page; a free range has its size in the
  // entry of its last page, too. A block's entry belongs to the block's owner.
  struct Range {
    std::uint32_t pages;
    std::uint32_t next;  // of free ranges: in their list
    std::uint32_t previous;
    bool free;      // at the first and the last page
    bool released;  // of free ranges: some pages were given back
  };
  static constexpr std::uint32_t kNone = 0xffffffff;

  // A list of free ranges. There is one for each size of blocks.
  struct List {
    unsigned doubling;
    unsigned eighth;
  };

  Arena(Segment segment, std::uint32_t reserved_pages);

  void* allocate_block(std::size_t bytes, std::size_t leave) KOLO_EXCLUDES(mutex_);

  static std::uint32_t block_pages(std::size_t bytes);
  static List list_of(std::uint32_t pages);
  std::optional<std::uint32_t> take(std::uint32_t pages) KOLO_REQUIRES(mutex_);
  std::optional<std::uint32_t> take_new(std::uint32_t pages) KOLO_REQUIRES(mutex_);
  std::uint32_t first_of_at_least(std::uint32_t pages) const KOLO_REQUIRES(mutex_);
  void give(std::uint32_t page, std::uint32_t pages) KOLO_REQUIRES(mutex_);
  void insert(std::uint32_t page, std::uint32_t pages, bool released) KOLO_REQUIRES(mutex_);
  void remove(std::uint32_t page) KOLO_REQUIRES(mutex_);
  bool populate(std::uint32_t page, std::uint32_t pages) const;
  void give_block(std::uint32_t page) KOLO_REQUIRES(mutex_);
  bool has_room(std::size_t bytes, std::size_t leave) const KOLO_EXCLUDES(mutex_);
  void count_taken(std::uint32_t pages) KOLO_REQUIRES(mutex_);
  std::size_t cached_pages() const KOLO_REQUIRES(mutex_);
  std::size_t pages_in_use() const KOLO_REQUIRES(mutex_);

  const Segment segment_;
  const std::uint32_t reserved_pages_;
  const std::uint32_t pages_;  // including the reserved ones
  Range* ranges_ = nullptr;    // by page; mapped, because most of it is never touched

  mutable Mutex mutex_;
  std::array<std::array<std::uint32_t, 8>, 32> lists_ KOLO_GUARDED_BY(mutex_);  // the first of each
  std::array<std::uint8_t, 32> eighths_ KOLO_GUARDED_BY(mutex_){};  // bits: non-empty lists
  std::uint32_t doublings_ KOLO_GUARDED_BY(mutex_) = 0;             // bits: eighths_ that are not 0
  std::uint32_t frontier_ KOLO_GUARDED_BY(mutex_);  // pages from here on were never used
  std::size_t kept_pages_ KOLO_GUARDED_BY(mutex_) = 0;
  std::size_t peak_pages_ KOLO_GUARDED_BY(mutex_) = 0;
  std::size_t earlier_allocations_ KOLO_GUARDED_BY(mutex_) = 0;  // by threads that no longer use it
  std::vector<ThreadCache*> caches_ KOLO_GUARDED_BY(mutex_);

  // In use, or kept by threads. Written under the lock.
  std::atomic<std::size_t> taken_pages_{0};
  std::atomic<std::size_t> refusals_{0};
  std::atomic<bool> closed_{false};  // true in a forked child
};

}  // namespace kolo::shm
