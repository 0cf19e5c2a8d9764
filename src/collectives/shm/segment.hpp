// Memory that the processes of a node can share: an anonymous file (memfd) that only they can
// reach, and that the kernel frees with its last user, however that ends.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/status.hpp"

namespace kolo::shm {

class Segment {
 public:
  Segment() = default;
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;

  // Makes a segment and maps it. Its pages are zero, and cost nothing until they are touched.
  // `name` is what /proc shows.
  static Status create(const std::string& name, std::size_t bytes, Segment& segment);
  // Maps a segment that another process has made, and takes over the descriptor.
  static Status adopt(int descriptor, Segment& segment);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  int descriptor() const { return descriptor_; }
  // The memory stays mapped, but cannot be handed to any other process.
  void close_descriptor();

  // For a child after fork(): makes this process's view a copy of its own, page by page as it
  // writes. Makes only system calls.
  bool make_private() const;

  // Gives the pages of a range back to the system; they are zero when they are touched again.
  Status release_pages(std::size_t offset, std::size_t bytes) const;

 private:
  Status map();
  void close_all();

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace kolo::shm
