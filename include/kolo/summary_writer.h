// Writes what TensorBoard shows. See docs/progress.md.
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
  // When data are added, the file is written if the last time is this many seconds ago.
  TORCH_ARG(double, flush_seconds) = 10;
};

// Not collective. Any thread; calls wait for each other. A process that is not initialized writes,
// as rank 0 of one. `tag` is the name of a curve or a row: "loss/train"; `step` its place there.
class SummaryWriter {
 public:
  // Makes the folder if it does not exist, and in it a new file events.out.tfevents.*. Throws
  // FileError.
  explicit SummaryWriter(const std::string& folder, const SummaryWriterOptions& options = {});
  // Writes the remaining data. Logs an error instead of throwing it.
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // All throw FileError where the file cannot be written; what was not written yet is lost then,
  // and what comes later is not. InvalidArgumentError for tags and texts that are no UTF-8, and for
  // tensors that are undefined or sparse.

  // Kept as float32, which is what TensorBoard has.
  void add_scalar(const std::string& tag, double value, std::int64_t step);
  // Any shape and real dtype, counted in TensorBoard's buckets. What is not finite is left out.
  void add_histogram(const std::string& tag, const at::Tensor& values, std::int64_t step);
  // [height, width] or [channels, height, width] with 1, 3 or 4 channels (grey, RGB, RGBA): uint8
  // from 0 to 255, or floating from 0 to 1. Throws InvalidArgumentError for anything else.
  void add_image(const std::string& tag, const at::Tensor& image, std::int64_t step);
  // Markdown.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);

  // All that was added is in the file.
  void flush();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null on ranks that do not write
};

}  // namespace kolo
