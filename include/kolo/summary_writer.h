// Writes event files for TensorBoard. See docs/progress.md.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/arg.h>

#include <cstdint>
#include <memory>
#include <string>

namespace kolo {

// Options of a SummaryWriter.
struct SummaryWriterOptions {
  // true: each rank writes, into folder/rank-N. false: only rank 0 writes, into the folder, and
  // calls on other ranks do nothing.
  TORCH_ARG(bool, all_ranks) = false;
  // Minimum number of seconds between two writes to the file. Added data are written by the first
  // call after that time, by flush(), or by the destructor.
  TORCH_ARG(double, flush_seconds) = 10;
};

// Writes event files for TensorBoard. Not collective; thread-safe. Before init() the process counts
// as rank 0, so it writes. `tag`: name of a curve or row, such as "loss/train". `step`: position.
class SummaryWriter {
 public:
  // Creates the folder if it does not exist, and a new file events.out.tfevents.* in it. Throws
  // FileError.
  explicit SummaryWriter(const std::string& folder, const SummaryWriterOptions& options = {});
  // Writes the remaining data. Logs an error instead of throwing it.
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // All functions throw FileError if the file cannot be written. Data that were not yet written are
  // then lost; later data are not. InvalidArgumentError for tags and texts that are not UTF-8, and
  // for tensors that are undefined or sparse.

  // Adds a value to a curve. Stored as float32.
  void add_scalar(const std::string& tag, double value, std::int64_t step);
  // Adds a histogram of the values: any shape, any real dtype. Omits values that are not finite.
  void add_histogram(const std::string& tag, const at::Tensor& values, std::int64_t step);
  // Adds an image: [height, width] or [channels, height, width] with 1, 3 or 4 channels (grey, RGB,
  // RGBA); uint8 from 0 to 255, or floating-point from 0 to 1. InvalidArgumentError for any other
  // tensor.
  void add_image(const std::string& tag, const at::Tensor& image, std::int64_t step);
  // Adds a text, shown as Markdown.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);

  // Writes all added data to the file.
  void flush();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null on ranks that do not write
};

}  // namespace kolo
