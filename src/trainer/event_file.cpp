#include "trainer/event_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace kolo::trainer {
namespace {

void append_little_endian(std::string& text, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
}

// A protocol buffer in wire format: tags with the fields' numbers, and their values.
class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    head(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& real(int field, double value) {
    head(field, 1);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  Message& single(int field, float value) {
    head(field, 5);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    head(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  Message& reals(int field, const std::vector<double>& values) {
    std::string packed;
    for (const double value : values)
      append_little_endian(packed, std::bit_cast<std::uint64_t>(value), 8);
    return text(field, packed);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void head(int field, unsigned type) { varint(static_cast<unsigned>(field) << 3 | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Rotates and offsets a checksum, so that the checksum of data with checksums in them is not one of
// theirs.
std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8U;
}

std::string record_of(const Message& event) {
  std::string record;
  append_little_endian(record, event.bytes().size(), 8);
  append_little_endian(record, masked(crc32c(record)), 4);
  record += event.bytes();
  append_little_endian(record, masked(crc32c(event.bytes())), 4);
  return record;
}

Message event_at(const Moment& moment) {
  return Message().real(1, moment.wall_time).integer(2, moment.step);
}

std::string summary_record(const Moment& moment, const Message& value) {
  return record_of(event_at(moment).message(5, Message().message(1, value)));
}

// Returns the ascending limits of TensorBoard's buckets.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> above;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) above.push_back(limit);
    std::vector<double> all;
    for (auto limit = above.rbegin(); limit != above.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), above.begin(), above.end());
    all.push_back(std::numeric_limits<double>::max());
    return all;
  }();
  return limits;
}

void append_big_endian(std::string& text, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
}

void append_chunk(std::string& png, std::string_view kind, std::string_view data) {
  append_big_endian(png, static_cast<std::uint32_t>(data.size()));
  const std::size_t begin = png.size();
  png += kind;
  png += data;
  const auto* const bytes = reinterpret_cast<const Bytef*>(png.data() + begin);
  append_big_endian(png, static_cast<std::uint32_t>(crc32(crc32(0, nullptr, 0), bytes,
                                                          static_cast<uInt>(png.size() - begin))));
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  const int result = compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                              reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (result != Z_OK) throw std::runtime_error("zlib could not compress an image");
  packed.resize(size);
  return packed;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = (value & 1) != 0 ? value >> 1 ^ 0x82f63b78U : value >> 1;
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

HistogramValue histogram_of(const double* values, std::size_t count) {
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size());
  HistogramValue histogram;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = values[i];
    if (!std::isfinite(value)) continue;
    histogram.min = histogram.count == 0 ? value : std::min(histogram.min, value);
    histogram.max = histogram.count == 0 ? value : std::max(histogram.max, value);
    ++histogram.count;
    histogram.sum += value;
    histogram.sum_of_squares += value * value;
    const auto place = std::lower_bound(limits.begin(), limits.end(), value) - limits.begin();
    ++counts[static_cast<std::size_t>(place)];
  }
  // Drops the empty buckets at both ends, but keeps one in front of the first full one, to tell
  // where that begins.
  std::size_t first = 0;
  while (first + 1 < counts.size() && counts[first + 1] == 0) ++first;
  if (counts[0] > 0 || histogram.count == 0) first = 0;
  std::size_t last = counts.size() - 1;
  while (last > first && counts[last] == 0) --last;
  const auto from = static_cast<std::ptrdiff_t>(first);
  const auto to = static_cast<std::ptrdiff_t>(last) + 1;
  histogram.limits.assign(limits.begin() + from, limits.begin() + to);
  histogram.counts.assign(counts.begin() + from, counts.begin() + to);
  return histogram;
}

std::string png_of(const ImageValue& image) {
  static constexpr std::array<char, 5> kColors = {0, 0, 0, 2, 6};  // by channels
  std::string png = "\x89PNG\r\n\x1a\n";
  std::string header;
  append_big_endian(header, static_cast<std::uint32_t>(image.width));
  append_big_endian(header, static_cast<std::uint32_t>(image.height));
  header += {8, kColors[static_cast<std::size_t>(image.channels)], 0, 0, 0};
  append_chunk(png, "IHDR", header);
  const auto row = static_cast<std::size_t>(image.width * image.channels);
  std::string rows;
  for (std::int64_t y = 0; y < image.height; ++y) {
    rows += '\0';  // no filter
    rows.append(image.bytes, static_cast<std::size_t>(y) * row, row);
  }
  append_chunk(png, "IDAT", compressed(rows));
  append_chunk(png, "IEND", "");
  return png;
}

std::string version_record(double wall_time) {
  return record_of(Message().real(1, wall_time).text(3, "brain.Event:2"));
}

std::string scalar_record(const Moment& moment, std::string_view tag, double value) {
  return summary_record(moment, Message().text(1, tag).single(2, static_cast<float>(value)));
}

std::string histogram_record(const Moment& moment, std::string_view tag,
                             const HistogramValue& value) {
  const Message histogram = Message()
                                .real(1, value.min)
                                .real(2, value.max)
                                .real(3, value.count)
                                .real(4, value.sum)
                                .real(5, value.sum_of_squares)
                                .reals(6, value.limits)
                                .reals(7, value.counts);
  return summary_record(moment, Message().text(1, tag).message(5, histogram));
}

std::string image_record(const Moment& moment, std::string_view tag, const ImageValue& value) {
  const Message image = Message()
                            .integer(1, value.height)
                            .integer(2, value.width)
                            .integer(3, value.channels)
                            .text(4, png_of(value));
  return summary_record(moment, Message().text(1, tag).message(4, image));
}

// Writes text as PyTorch's writer does: a tensor of one string, for the plugin "text".
std::string text_record(const Moment& moment, std::string_view tag, std::string_view text) {
  constexpr int kStringType = 7;
  const Message shape = Message().message(2, Message().integer(1, 1));
  const Message tensor = Message().integer(1, kStringType).message(2, shape).text(8, text);
  const Message metadata = Message().message(1, Message().text(1, "text"));
  const std::string full = std::string(tag) + "/text_summary";
  return summary_record(moment, Message().text(1, full).message(9, metadata).message(8, tensor));
}

}  // namespace kolo::trainer
