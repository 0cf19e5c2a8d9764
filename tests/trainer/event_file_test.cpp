#include "trainer/event_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace kolo::trainer {
namespace {

using testing::ElementsAre;

// RFC 3720, B.4, and the usual check value.
TEST(Crc32c, OfKnownTexts) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(""), 0U);
}

// The bytes, worked out from the formats' definitions by another program.
TEST(EventFile, AScalar) {
  const std::string record(
      "\x18\x00\x00\x00\x00\x00\x00\x00"  // how long the event is
      "\xa3\x7f\x4b\x22"                  // the checksum of that
      "\x09\0\0\0\0\0\0\0\0"              // 1: wall_time
      "\x10\xac\x02"                      // 2: step
      "\x2a\x0a\x0a\x08"                  // 5: summary; 1: value
      "\x0a\x01"                          // 1: tag
      "a\x15\0\0\x80\x3f"                 // 2: simple_value
      "\x27\x0e\xd3\x42",                 // the event's checksum
      40);
  EXPECT_EQ(scalar_record({0, 300}, "a", 1), record);
}

TEST(EventFile, HistogramsCountAll) {
  const double values[] = {
      -3, 0, 0, 2e-12, 5, std::nan(""), 7, std::numeric_limits<double>::infinity()};
  const HistogramValue histogram = histogram_of(values, 8);
  EXPECT_EQ(histogram.count, 6);
  EXPECT_EQ(histogram.min, -3);
  EXPECT_EQ(histogram.max, 7);
  EXPECT_DOUBLE_EQ(histogram.sum, 9 + 2e-12);
  EXPECT_DOUBLE_EQ(histogram.sum_of_squares, 9 + 25 + 49);
  ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0), 6);
  double from = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < histogram.limits.size(); ++i) {
    double expected = 0;
    for (const double value : values) expected += value > from && value <= histogram.limits[i];
    EXPECT_EQ(histogram.counts[i], expected) << from << " to " << histogram.limits[i];
    from = histogram.limits[i];
  }
  EXPECT_EQ(histogram.counts.front(), 0);  // it says where the second begins
  EXPECT_GT(histogram.counts[1], 0);
  EXPECT_GT(histogram.counts.back(), 0);
}

TEST(EventFile, HistogramsOfExtremes) {
  const double largest = std::numeric_limits<double>::max();
  const double values[] = {-largest, largest};
  const HistogramValue histogram = histogram_of(values, 2);
  EXPECT_EQ(histogram.counts.front(), 1);
  EXPECT_EQ(histogram.counts.back(), 1);
  const HistogramValue nothing = histogram_of(values, 0);
  EXPECT_EQ(nothing.count, 0);
  EXPECT_EQ(nothing.limits.size(), nothing.counts.size());
  EXPECT_FALSE(nothing.limits.empty());
}

std::uint32_t number_at(const std::string& png, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number = number << 8 | static_cast<unsigned char>(png[at + i]);
  return number;
}

TEST(Png, HasChunksAndRows) {
  const std::string png = png_of({2, 3, 1, "abcdef"});
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::vector<std::string> kinds;
  std::string data;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t length = number_at(png, at);
    const std::string kind = png.substr(at + 4, 4);
    kinds.push_back(kind);
    const auto* const bytes = reinterpret_cast<const Bytef*>(png.data() + at + 4);
    EXPECT_EQ(number_at(png, at + 8 + length), crc32(0, bytes, static_cast<uInt>(length + 4)));
    if (kind == "IHDR") {
      EXPECT_EQ(png.substr(at + 8, 13), std::string("\0\0\0\3\0\0\0\2\x08\0\0\0\0", 13));
    }
    if (kind == "IDAT") data = png.substr(at + 8, length);
    at += 12 + length;
  }
  EXPECT_THAT(kinds, ElementsAre("IHDR", "IDAT", "IEND"));
  std::string rows(100, '?');
  uLongf size = rows.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(rows.data()), &size,
                       reinterpret_cast<const Bytef*>(data.data()), data.size()),
            Z_OK);
  rows.resize(size);
  EXPECT_EQ(rows, std::string("\0abc\0def", 8));
}

}  // namespace
}  // namespace kolo::trainer
