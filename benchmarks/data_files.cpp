#include "benchmarks/data_files.hpp"

#define H5_USE_110_API
#include <hdf5.h>

#include <fstream>

#include "benchmarks/harness.hpp"

namespace kolo::bench {
namespace {

// Closes an identifier of HDF5.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {
    if (id < 0) throw ContenderFailed("HDF5 cannot write the file with the samples");
  }
  ~Handle() { close_(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  hid_t get() const { return id_; }

 private:
  const hid_t id_;
  herr_t (*const close_)(hid_t);
};

void require(herr_t code) {
  if (code < 0) throw ContenderFailed("HDF5 cannot write the file with the samples");
}

std::vector<std::uint8_t> all_bytes(const SampleForm& form) {
  const std::size_t size = form.bytes();
  std::vector<std::uint8_t> bytes(form.count * size);
  for (std::size_t i = 0; i < form.count; ++i)
    for (std::size_t at = 0; at < size; ++at) bytes[i * size + at] = sample_byte(i, at);
  return bytes;
}

std::vector<std::uint8_t> all_labels(std::size_t count) {
  std::vector<std::uint8_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = label_of(i);
  return labels;
}

void write_array(hid_t file, const char* name, const std::vector<hsize_t>& extents,
                 const std::vector<std::uint8_t>& bytes, Hdf5Form how) {
  const auto dimensions = static_cast<int>(extents.size());
  const Handle space(H5Screate_simple(dimensions, extents.data(), nullptr), H5Sclose);
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (how != Hdf5Form::kContiguous) {
    std::vector<hsize_t> chunk = extents;
    chunk[0] = 1;
    require(H5Pset_chunk(properties.get(), dimensions, chunk.data()));
  }
  if (how == Hdf5Form::kGzip) {
    constexpr unsigned kLevel = 4;
    require(H5Pset_shuffle(properties.get()));
    require(H5Pset_deflate(properties.get(), kLevel));
  }
  const Handle dataset(H5Dcreate2(file, name, H5T_NATIVE_UINT8, space.get(), H5P_DEFAULT,
                                  properties.get(), H5P_DEFAULT),
                       H5Dclose);
  require(H5Dwrite(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()));
}

void append_big_endian(std::vector<std::uint8_t>& bytes, std::size_t number) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::uint8_t>(number >> static_cast<unsigned>(shift)));
}

// See docs/idx-format.md.
void write_idx_file(const std::string& path, const std::vector<std::size_t>& extents,
                    const std::vector<std::uint8_t>& values) {
  constexpr std::uint8_t kUint8 = 8;
  std::vector<std::uint8_t> bytes{0, 0, kUint8, static_cast<std::uint8_t>(extents.size())};
  for (const std::size_t extent : extents) append_big_endian(bytes, extent);
  bytes.insert(bytes.end(), values.begin(), values.end());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw ContenderFailed("cannot write " + path);
}

}  // namespace

std::size_t SampleForm::bytes() const {
  std::size_t product = 1;
  for (const std::size_t extent : shape) product *= extent;
  return product;
}

std::uint8_t sample_byte(std::size_t sample, std::size_t at) {
  // Four random bits: SplitMix64's mixing.
  std::uint64_t bits = (sample << 32U) + at + 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EB;
  return static_cast<std::uint8_t>(bits >> 60U);
}

std::uint8_t label_of(std::size_t sample) {
  return static_cast<std::uint8_t>(sample * 7 % 10);
}

void write_hdf5(const std::string& path, const SampleForm& form, Hdf5Form how) {
  const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  std::vector<hsize_t> extents{form.count};
  write_array(file.get(), "labels", extents, all_labels(form.count), Hdf5Form::kContiguous);
  extents.insert(extents.end(), form.shape.begin(), form.shape.end());
  write_array(file.get(), "images", extents, all_bytes(form), how);
}

void write_idx(const std::string& folder, const SampleForm& form) {
  std::vector<std::size_t> extents{form.count};
  extents.insert(extents.end(), form.shape.begin(), form.shape.end());
  write_idx_file(folder + "/train-images-idx3-ubyte", extents, all_bytes(form));
  write_idx_file(folder + "/train-labels-idx1-ubyte", {form.count}, all_labels(form.count));
}

}  // namespace kolo::bench
