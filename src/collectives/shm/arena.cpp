#include "collectives/shm/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "core/log.hpp"

namespace kolo::shm {
namespace {

// New memory is taken in pieces of at least this size, which small blocks share.
constexpr std::uint32_t kNewPages = (2 << 20) / Arena::kPage;

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

}  // namespace

// A few blocks that this thread has freed, by size. Bounded, so that blocks that one thread
// allocates and another frees do not pile up. Other threads read its counters. Threads that all
// wrote to common counters would fetch them from each other for each block.
class Arena::ThreadCache {
 public:
  ~ThreadCache() {
    leave();
    ended = true;
  }
  ThreadCache() = default;
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  // Returns the calling thread's cache for this arena. Null while the thread ends: blocks that are
  // freed then, by objects that outlive the cache, are not kept.
  static ThreadCache* of(Arena& arena) {
    if (ended) return nullptr;
    thread_local ThreadCache cache;
    if (cache.arena_ != &arena) cache.change_to(arena);
    return &cache;
  }

  // Returns the cache that of() has given this thread for the arena, or null.
  static ThreadCache* known_to(const Arena& arena) {
    return current != nullptr && current->arena_ == &arena ? current : nullptr;
  }

  static void forget(const Arena& arena) {
    if (ThreadCache* const cache = known_to(arena)) cache->leave();
  }

  // Takes a block. Returns its page number, or nothing.
  std::optional<std::uint32_t> take(std::uint32_t pages) {
    Bin* const bin = bin_for(pages);
    if (bin == nullptr || bin->count == 0) return std::nullopt;
    set_kept(kept() - pages);
    return bin->blocks[--bin->count];
  }

  bool keep(std::uint32_t page, std::uint32_t pages) {
    Bin* const bin = bin_for(pages);
    if (bin == nullptr || bin->count == bin->blocks.size() || kept() + pages > kMostPages)
      return false;
    bin->blocks[bin->count++] = page;
    set_kept(kept() + pages);
    return true;
  }

  void count_allocation() { allocations_.store(allocations() + 1, std::memory_order_relaxed); }

  // Any thread may call these.
  std::uint32_t kept() const { return kept_.load(std::memory_order_relaxed); }
  std::size_t allocations() const { return allocations_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kLargestPages = (1 << 20) / kPage;
  static constexpr std::uint32_t kMostPages = (16 << 20) / kPage;
  static constexpr std::size_t kBins = 5 * 8 + 1;  // sizes from 8 to 256 pages: see block_pages()

  struct Bin {
    std::array<std::uint32_t, 8> blocks;
    std::size_t count = 0;
  };

  Bin* bin_for(std::uint32_t pages) {
    if (pages > kLargestPages) return nullptr;
    const List list = list_of(pages);
    return &bins_[list.doubling * 8 + list.eighth - 8];
  }

  void change_to(Arena& arena) {
    leave();
    const MutexLock lock(arena.mutex_);
    arena.caches_.push_back(this);
    arena_ = &arena;
    current = this;
  }

  void leave() {
    if (arena_ == nullptr) return;
    const MutexLock lock(arena_->mutex_);
    for (Bin& bin : bins_) {
      while (bin.count > 0) arena_->give_block(bin.blocks[--bin.count]);
    }
    set_kept(0);
    arena_->earlier_allocations_ += allocations();
    allocations_.store(0, std::memory_order_relaxed);
    std::erase(arena_->caches_, this);
    arena_ = nullptr;
    current = nullptr;
  }

  void set_kept(std::uint32_t pages) { kept_.store(pages, std::memory_order_relaxed); }

  // Without destructors, so that they outlive the cache.
  static thread_local bool ended;
  static thread_local ThreadCache* current;

  Arena* arena_ = nullptr;
  std::array<Bin, kBins> bins_{};
  // Written by this thread alone.
  std::atomic<std::uint32_t> kept_{0};  // pages
  std::atomic<std::size_t> allocations_{0};
};

thread_local bool Arena::ThreadCache::ended = false;
thread_local Arena::ThreadCache* Arena::ThreadCache::current = nullptr;

Arena::Arena(Segment segment, std::uint32_t reserved_pages)
    : segment_(std::move(segment)),
      reserved_pages_(reserved_pages),
      pages_(static_cast<std::uint32_t>(segment_.size() / kPage)),
      frontier_(reserved_pages) {
  for (std::array<std::uint32_t, 8>& of_doubling : lists_) of_doubling.fill(kNone);
}

Arena::~Arena() {
  ThreadCache::forget(*this);
  if (ranges_ != nullptr) munmap(ranges_, pages_ * sizeof(Range));
}

Status Arena::create(std::size_t reserved, std::size_t capacity, std::unique_ptr<Arena>& arena) {
  Segment segment;
  const std::size_t most = (std::size_t{kNone} - 1) * kPage;
  if (Status s =
          Segment::create("kolo-arena", std::min(reserved + capacity + kAside, most), segment);
      !s.is_ok()) {
    return s;
  }
  std::unique_ptr<Arena> made(
      new Arena(std::move(segment), static_cast<std::uint32_t>(reserved / kPage)));
  void* const table = mmap(nullptr, made->pages_ * sizeof(Range), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) return Status::internal("no memory for the arena's table");
  made->ranges_ = static_cast<Range*>(table);
  arena = std::move(made);
  return Status::ok();
}

// Returns the size of a block. There are eight sizes from one power of two to the next: at most an
// eighth is lost, and blocks of about the same size can take each other's place.
std::uint32_t Arena::block_pages(std::size_t bytes) {
  const auto pages = static_cast<std::uint32_t>((bytes + kPage - 1) / kPage);
  const std::uint32_t step = std::max(1U, std::bit_floor(pages) / 8);
  return (pages + step - 1) / step * step;
}

// Returns the list for ranges of that size. It holds ranges of at least its own size, and below the
// next one's. The first doubling is for ranges that are smaller than any block, which remain when a
// range is cut.
Arena::List Arena::list_of(std::uint32_t pages) {
  if (pages < 8) return {0, pages};
  const auto doubling = static_cast<unsigned>(std::bit_width(pages)) - 4;
  return {doubling + 1, (pages >> doubling) - 8};
}

void* Arena::allocate(std::size_t bytes) {
  void* const block = allocate_block(bytes, kAside);
  if (block == nullptr && bytes >= kSmallest && !closed_.load(std::memory_order_relaxed) &&
      refusals_.fetch_add(1, std::memory_order_relaxed) == 0) {
    log::warning("the arena has no room or no memory for " + std::to_string(bytes) +
                 " bytes: tensors that it cannot hold get private memory, and are reduced by a "
                 "slower path. KOLO_ARENA_BYTES sets its maximum size");
  }
  return block;
}

void* Arena::allocate_staging(std::size_t bytes) {
  return allocate_block(bytes, 0);
}

void* Arena::allocate_block(std::size_t bytes, std::size_t leave) {
  if (bytes < kSmallest || closed_.load(std::memory_order_relaxed)) return nullptr;
  ThreadCache* const cache = ThreadCache::of(*this);
  if (cache != nullptr) cache->count_allocation();
  std::optional<std::uint32_t> page;
  std::uint32_t pages = 0;
  if (has_room(bytes, leave)) {
    pages = block_pages(bytes);
    if (cache != nullptr) page = cache->take(pages);
    if (!page) {
      const MutexLock lock(mutex_);
      if (cache == nullptr) ++earlier_allocations_;
      page = take(pages);
      if (page) count_taken(pages);
    }
  }
  if (!page) return nullptr;
  ranges_[*page].pages = pages;
  return segment_.data() + std::size_t{*page} * kPage;
}

bool Arena::has_room(std::size_t bytes, std::size_t leave) const {
  const std::size_t room = std::size_t{pages_ - reserved_pages_} * kPage;
  const auto fits_beside = [&](std::size_t used_pages) {
    const std::size_t used = used_pages * kPage + leave;
    return used <= room && bytes <= room - used;
  };
  if (fits_beside(taken_pages_.load(std::memory_order_relaxed))) return true;
  const MutexLock lock(mutex_);
  return fits_beside(pages_in_use());
}

std::size_t Arena::pages_in_use() const {
  const std::size_t taken = taken_pages_.load(std::memory_order_relaxed);
  // A block that goes from one thread to another meanwhile may be counted twice.
  return taken - std::min(taken, cached_pages());
}

void Arena::count_taken(std::uint32_t pages) {
  const std::size_t now = taken_pages_.load(std::memory_order_relaxed) + pages;
  taken_pages_.store(now, std::memory_order_relaxed);
  peak_pages_ = std::max(peak_pages_, now);
}

std::size_t Arena::cached_pages() const {
  std::size_t pages = 0;
  for (const ThreadCache* cache : caches_) pages += cache->kept();
  return pages;
}

void Arena::free(void* block) {
  const auto page = static_cast<std::uint32_t>(
      static_cast<std::size_t>(static_cast<std::byte*>(block) - segment_.data()) / kPage);
  ThreadCache* const cache = ThreadCache::of(*this);
  if (cache != nullptr && cache->keep(page, ranges_[page].pages)) return;
  const MutexLock lock(mutex_);
  give_block(page);
}

void Arena::give_block(std::uint32_t page) {
  const std::uint32_t pages = ranges_[page].pages;
  taken_pages_.store(taken_pages_.load(std::memory_order_relaxed) - pages,
                     std::memory_order_relaxed);
  give(page, pages);
}

// Takes a range from the smallest list whose ranges are all large enough, or new memory.
std::optional<std::uint32_t> Arena::take(std::uint32_t pages) {
  const std::uint32_t page = first_of_at_least(pages);
  if (page == kNone) return take_new(pages);
  const Range found = ranges_[page];
  if (found.released && !populate(page, pages)) return std::nullopt;
  remove(page);
  if (found.pages > pages) insert(page + pages, found.pages - pages, found.released);
  return page;
}

std::uint32_t Arena::first_of_at_least(std::uint32_t pages) const {
  const List list = list_of(pages);
  const unsigned here = eighths_[list.doubling] & (0xffU << list.eighth);
  if (here != 0) return lists_[list.doubling][static_cast<unsigned>(std::countr_zero(here))];
  const std::uint32_t above = doublings_ & (~std::uint32_t{1} << list.doubling);
  if (above == 0) return kNone;
  const auto doubling = static_cast<unsigned>(std::countr_zero(above));
  return lists_[doubling][static_cast<unsigned>(std::countr_zero(eighths_[doubling]))];
}

// Takes new memory, together with a free range at the end if there is one.
std::optional<std::uint32_t> Arena::take_new(std::uint32_t pages) {
  const bool continues = frontier_ > reserved_pages_ && ranges_[frontier_ - 1].free;
  const std::uint32_t begin = frontier_ - (continues ? ranges_[frontier_ - 1].pages : 0);
  if (pages > pages_ - begin) return std::nullopt;
  const std::uint32_t end =
      std::max(begin + pages, frontier_ + std::min(kNewPages, pages_ - frontier_));
  if (!populate(begin, end - begin)) return std::nullopt;
  if (continues) remove(begin);
  frontier_ = end;
  if (end > begin + pages) insert(begin + pages, end - begin - pages, false);
  return begin;
}

void Arena::give(std::uint32_t page, std::uint32_t pages) {
  bool released = false;
  if (page + pages < frontier_ && ranges_[page + pages].free) {
    const std::uint32_t after = page + pages;
    released = ranges_[after].released;
    pages += ranges_[after].pages;
    remove(after);
  }
  if (page > reserved_pages_ && ranges_[page - 1].free) {
    const std::uint32_t before = page - ranges_[page - 1].pages;
    released = released || ranges_[before].released;
    pages += ranges_[before].pages;
    remove(before);
    page = before;
  }
  insert(page, pages, released);
}

void Arena::insert(std::uint32_t page, std::uint32_t pages, bool released) {
  const List list = list_of(pages);
  std::uint32_t& first = lists_[list.doubling][list.eighth];
  if (first != kNone) ranges_[first].previous = page;
  ranges_[page] = {pages, first, kNone, true, released};
  if (pages > 1) {
    ranges_[page + pages - 1].pages = pages;
    ranges_[page + pages - 1].free = true;
  }
  first = page;
  eighths_[list.doubling] |= static_cast<std::uint8_t>(1U << list.eighth);
  doublings_ |= 1U << list.doubling;
  if (!released) kept_pages_ += pages;
}

void Arena::remove(std::uint32_t page) {
  const Range range = ranges_[page];
  const List list = list_of(range.pages);
  if (range.next != kNone) ranges_[range.next].previous = range.previous;
  if (range.previous != kNone) {
    ranges_[range.previous].next = range.next;
  } else {
    lists_[list.doubling][list.eighth] = range.next;
    if (range.next == kNone) {
      eighths_[list.doubling] &= static_cast<std::uint8_t>(~(1U << list.eighth));
      if (eighths_[list.doubling] == 0) doublings_ &= ~(1U << list.doubling);
    }
  }
  ranges_[page].free = false;
  ranges_[page + range.pages - 1].free = false;
  if (!range.released) kept_pages_ -= range.pages;
}

// Takes memory for pages now: all at once instead of page by page, on the NUMA node of the
// allocating thread, and with an error instead of a signal if there is no memory. (Kernels that do
// not support this take it later, page by page.)
bool Arena::populate(std::uint32_t page, std::uint32_t pages) const {
  const int done =
      madvise(segment_.data() + std::size_t{page} * kPage, pages * kPage, MADV_POPULATE_WRITE);
  return done == 0 || errno == EINVAL;
}

std::optional<std::size_t> Arena::offset_of(const void* data, std::size_t bytes) const {
  if (!owns(data)) return std::nullopt;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(data) - segment_.data());
  if (bytes > segment_.size() - offset) return std::nullopt;
  return offset;
}

std::size_t Arena::trim() {
  const MutexLock lock(mutex_);
  const std::size_t before = kept_pages_;
  for (const auto& of_doubling : lists_) {
    for (std::uint32_t page : of_doubling) {
      for (; page != kNone; page = ranges_[page].next) {
        Range& range = ranges_[page];
        const Status status =
            segment_.release_pages(std::size_t{page} * kPage, std::size_t{range.pages} * kPage);
        if (!status.is_ok()) {
          log::warning("trimming the arena: " + status.message());
          return (before - kept_pages_) * kPage;
        }
        if (!std::exchange(range.released, true)) kept_pages_ -= range.pages;
      }
    }
  }
  return (before - kept_pages_) * kPage;
}

Arena::Statistics Arena::statistics() const {
  Statistics statistics;
  statistics.capacity = std::size_t{pages_ - reserved_pages_} * kPage - kAside;
  statistics.refusals = refusals_.load(std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  statistics.allocated = pages_in_use() * kPage;
  statistics.peak = peak_pages_ * kPage;
  statistics.kept = (kept_pages_ + cached_pages()) * kPage;
  statistics.allocations = earlier_allocations_;
  for (const ThreadCache* cache : caches_) statistics.allocations += cache->allocations();
  return statistics;
}

bool Arena::after_fork_in_child() {
  closed_.store(true, std::memory_order_relaxed);
  const bool done = segment_.make_private();
  // The other threads do not exist in the child, and their caches' memory may be reused.
  ThreadCache* const mine = ThreadCache::known_to(*this);
  for (const ThreadCache* cache : caches_) {
    if (cache == mine) continue;
    earlier_allocations_ += cache->allocations();
    taken_pages_.store(taken_pages_.load(std::memory_order_relaxed) - cache->kept(),
                       std::memory_order_relaxed);
  }
  std::erase_if(caches_, [&](const ThreadCache* cache) { return cache != mine; });
  mutex_.unlock();
  return done;
}

}  // namespace kolo::shm
