// Reads the bytes of a data file: from memory, from a file, or from a gzip stream in either.
// Internal to the readers of data files. Only one thread uses a source.
#pragma once

#include <sys/uio.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "data/data_error.hpp"
#include "data/data_file.hpp"

namespace kolo::data {

inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
// Deflate codes at most 258 bytes in 2 bits.
inline constexpr std::uint64_t kDeflateBestRatio = 1032;

// A stream of bytes.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  // Reads `size` bytes; fewer only at the end of the data. Throws DataError.
  virtual std::size_t read(std::uint8_t* to, std::size_t size) = 0;
  // Returns an upper bound for the size of the whole source, in bytes.
  virtual std::uint64_t total_at_most() const = 0;
};

class MemorySource : public Source {
 public:
  MemorySource(const void* data, std::size_t size)
      : data_(static_cast<const std::uint8_t*>(data)), size_(size) {}

  std::size_t read(std::uint8_t* to, std::size_t size) override {
    const std::size_t count = std::min(size, size_ - position_);
    if (count > 0) std::memcpy(to, data_ + position_, count);
    position_ += count;
    return count;
  }
  std::uint64_t total_at_most() const override { return size_; }

 private:
  const std::uint8_t* data_;  // the caller's; outlives this object, which lives within one call
  std::size_t size_;
  std::size_t position_ = 0;
};

class FileSource : public Source {
 public:
  explicit FileSource(const std::string& path) : file_(path) {}

  std::size_t read(std::uint8_t* to, std::size_t size) override {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(size, file_.size() - position_));
    std::vector<iovec> whole{{to, count}};
    file_.read(position_, whole);
    position_ += count;
    return count;
  }
  std::uint64_t total_at_most() const override { return file_.size(); }

 private:
  const DataFile file_;
  std::uint64_t position_ = 0;
};

inline bool is_gzip(const std::uint8_t* start, std::size_t size) {
  return size >= 2 && start[0] == 0x1F && start[1] == 0x8B;
}

// Decompresses gzip while reading. Does not use zlib's gzread(), which ignores what follows the
// data.
class GzipSource : public Source {
 public:
  // start holds the first bytes, which were already read from packed.
  GzipSource(Source& packed, const std::uint8_t* start, std::size_t size, const std::string& name)
      : packed_(packed), name_(name), input_(kChunkBytes / 16) {
    std::copy_n(start, size, input_.data());
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(size);
    constexpr int kGzipOnly = 16;  // added to the window bits: expect a gzip header and trailer
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(std::uint8_t* to, std::size_t size) override {
    std::size_t count = 0;
    while (count < size) {
      if (stream_.avail_in == 0 && !refill()) {
        if (in_member_) fail_damaged("they end too early");
        break;
      }
      count += unpack(to + count, std::min(size - count, kChunkBytes));
    }
    return count;
  }
  std::uint64_t total_at_most() const override {
    return packed_.total_at_most() * kDeflateBestRatio;
  }

 private:
  bool refill() {
    stream_.next_in = input_.data();
    stream_.avail_in = static_cast<uInt>(packed_.read(input_.data(), input_.size()));
    return stream_.avail_in > 0;
  }

  // Returns the number of bytes produced. If it is 0, input was consumed or a member ended.
  std::size_t unpack(std::uint8_t* to, std::size_t size) {
    if (!in_member_) {
      inflateReset(&stream_);
      in_member_ = true;
    }
    stream_.next_out = to;
    stream_.avail_out = static_cast<uInt>(size);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      in_member_ = false;
      ++members_;
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK) {
      fail_damaged(stream_.msg != nullptr ? stream_.msg : "unexpected content");
    }
    return size - stream_.avail_out;
  }

  [[noreturn]] void fail_damaged(const std::string& detail) {
    if (members_ > 0 && stream_.total_out == 0) {
      fail(name_, "other bytes follow the end of its gzip data", kGetAgain);
    }
    fail(name_, "its gzip data are damaged (" + detail + ")", kGetAgain);
  }

  Source& packed_;  // outlives this object, which lives within one call
  const std::string& name_;
  std::vector<std::uint8_t> input_;
  z_stream stream_{};
  bool in_member_ = true;
  int members_ = 0;
};

}  // namespace kolo::data
