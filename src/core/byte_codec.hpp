// Encodes numbers and texts of messages as bytes.
//
//   number    = LEB128, 7 bits a byte, low first, at most 10 bytes
//   text      = length:number byte{length}
//   numbers   = count:number number{count}
//   real      = 8 bytes, IEEE 754, little endian
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

class ByteWriter {
 public:
  void u8(std::uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) u8(static_cast<std::uint8_t>(value | 0x80));
    u8(static_cast<std::uint8_t>(value));
  }
  void real(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) u8(static_cast<std::uint8_t>(bits >> shift));
  }
  void text(const std::string& value) {
    number(value.size());
    for (const char c : value) u8(static_cast<std::uint8_t>(c));
  }
  template <typename Number>
  void numbers(const std::vector<Number>& values) {
    number(values.size());
    for (const Number value : values) number(static_cast<std::uint64_t>(value));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads what ByteWriter wrote. After the first error everything reads as zero and ok() is false.
class ByteReader {
 public:
  // The bytes outlive the reader.
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return !ok_ || at_ == bytes_.size(); }
  void fail() { ok_ = false; }

  std::uint8_t u8() {
    if (!ok_ || at_ == bytes_.size()) {
      ok_ = false;
      return 0;
    }
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::uint8_t u8_below(int limit) {
    const std::uint8_t value = u8();
    if (value < limit) return value;
    ok_ = false;
    return 0;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const std::uint8_t byte = u8();
      if (shift == 63 && byte > 1) break;  // more than 64 bits
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return ok_ ? value : 0;
    }
    ok_ = false;
    return 0;
  }
  std::uint64_t number_up_to(std::uint64_t limit) {
    const std::uint64_t value = number();
    if (value <= limit) return value;
    ok_ = false;
    return 0;
  }
  double real() {
    std::uint64_t bits = 0;
    for (int shift = 0; shift < 64; shift += 8) bits |= static_cast<std::uint64_t>(u8()) << shift;
    return std::bit_cast<double>(bits);
  }
  // Reads a count of items that take at least a byte each, so that a false count cannot cause a
  // large allocation.
  std::size_t count() { return static_cast<std::size_t>(number_up_to(bytes_.size() - at_)); }
  std::string text() {
    std::string value(count(), '\0');
    for (char& c : value) c = static_cast<char>(u8());
    return value;
  }
  template <typename Number>
  std::vector<Number> numbers() {
    constexpr std::uint64_t kLargest = std::numeric_limits<Number>::max();
    std::vector<Number> values(count());
    for (Number& value : values) value = static_cast<Number>(number_up_to(kLargest));
    return values;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace kolo
