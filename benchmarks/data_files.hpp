// Files with samples for `kolo bench loading`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kolo::bench {

// The form of the samples in a file.
struct SampleForm {
  std::vector<std::size_t> shape;  // of a sample, in uint8
  std::size_t count = 0;

  std::size_t bytes() const;  // of a sample
};

// Byte `at` of sample `sample`: compresses to about half.
std::uint8_t sample_byte(std::size_t sample, std::size_t at);
// From 0 to 9.
std::uint8_t label_of(std::size_t sample);

// Layouts of the samples in an HDF5 file.
enum class Hdf5Form : std::uint8_t {
  kContiguous = 0,
  kChunks = 1,  // of one sample, not compressed
  kGzip = 2,    // likewise, with shuffle and gzip of level 4
};

// Writes the samples and their labels. Both throw ContenderFailed.
void write_hdf5(const std::string& path, const SampleForm& form, Hdf5Form how);
// In the two training files of MNIST.
void write_idx(const std::string& folder, const SampleForm& form);

}  // namespace kolo::bench
