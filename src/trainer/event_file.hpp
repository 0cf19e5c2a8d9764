// Writes TensorBoard's event files: records (TFRecord, tensorflow/core/lib/io/record_writer.cc) of
// protocol buffers (tensorflow/core/util/event.proto, framework/summary.proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::trainer {

struct Moment {
  double wall_time = 0;  // seconds since 1970
  std::int64_t step = 0;
};

// A histogram. Bucket i counts the values above limits[i - 1], up to limits[i].
struct HistogramValue {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> limits;
  std::vector<double> counts;
};
// Uses TensorBoard's buckets: each is a tenth longer than the one before, from 1e-12 to 1e20, on
// both sides of 0. Ignores values that are not finite.
HistogramValue histogram_of(const double* values, std::size_t count);

// 8 bits per channel, rows from the top, the channels of a pixel together; 1 (grey), 3 (RGB) or 4
// (RGBA).
struct ImageValue {
  std::int64_t height = 0;
  std::int64_t width = 0;
  int channels = 1;
  std::string bytes;
};
// Returns a PNG file (ISO/IEC 15948).
std::string png_of(const ImageValue& image);

// Return whole records, which are appended to a file. A file begins with the version.
std::string version_record(double wall_time);
std::string scalar_record(const Moment& moment, std::string_view tag, double value);
std::string histogram_record(const Moment& moment, std::string_view tag,
                             const HistogramValue& value);
std::string image_record(const Moment& moment, std::string_view tag, const ImageValue& value);
std::string text_record(const Moment& moment, std::string_view tag, std::string_view text);

// Returns the CRC-32C (RFC 3720), as records use it.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace kolo::trainer
