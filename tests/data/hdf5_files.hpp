// HDF5 files for tests, written with HDF5's library.
#pragma once

#define H5_USE_110_API
#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kolo::data::test {

inline hid_t good(hid_t id) {
  if (id < 0) throw std::runtime_error("HDF5 failed in a test's own file");
  return id;
}

using Extents = std::vector<hsize_t>;

// How an array is stored.
struct Storage {
  hid_t type = H5T_NATIVE_INT32;               // in the file
  Extents chunk = {};                          // empty: not in chunks
  std::function<void(hid_t)> properties = {};  // of the dataset's creation
  hsize_t written = ~hsize_t{0};               // how many rows; the others are fill values
};

// Writes an array into a file, creating the file if necessary. `values` are of `memory_type`.
inline void write_array(const std::string& path, const std::string& name, const Extents& shape,
                        hid_t memory_type, const void* values, const Storage& storage = {},
                        hsize_t user_block = 0) {
  const hid_t creation = good(H5Pcreate(H5P_FILE_CREATE));
  if (user_block > 0) good(H5Pset_userblock(creation, user_block));
  hid_t file = H5I_INVALID_HID;
  H5E_BEGIN_TRY file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5E_END_TRY
  if (file < 0) file = good(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation, H5P_DEFAULT));
  const hid_t space = good(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  const hid_t properties = good(H5Pcreate(H5P_DATASET_CREATE));
  if (!storage.chunk.empty()) {
    good(H5Pset_chunk(properties, static_cast<int>(storage.chunk.size()), storage.chunk.data()));
  }
  if (storage.properties) storage.properties(properties);
  const hid_t links = good(H5Pcreate(H5P_LINK_CREATE));
  good(H5Pset_create_intermediate_group(links, 1));
  const hid_t dataset =
      good(H5Dcreate2(file, name.c_str(), storage.type, space, links, properties, H5P_DEFAULT));
  if (storage.written > 0 && !shape.empty() && values != nullptr) {
    Extents extents = shape;
    extents[0] = std::min(extents[0], storage.written);
    const Extents begin(shape.size(), 0);
    const hid_t memory =
        good(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
    good(
        H5Sselect_hyperslab(space, H5S_SELECT_SET, begin.data(), nullptr, extents.data(), nullptr));
    good(H5Dwrite(dataset, memory_type, memory, space, H5P_DEFAULT, values));
    H5Sclose(memory);
  } else if (shape.empty() && values != nullptr) {
    good(H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
  }
  H5Dclose(dataset);
  H5Pclose(links);
  H5Pclose(properties);
  H5Sclose(space);
  H5Fclose(file);
  H5Pclose(creation);
}

// Element i of the whole array is this.
inline std::int32_t value_at(std::size_t i) {
  return static_cast<std::int32_t>(i * 7919 % 100003) - 50000;
}

inline std::vector<std::int32_t> values_of(const Extents& shape) {
  std::size_t count = 1;
  for (const hsize_t extent : shape) count *= extent;
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_at(i);
  return values;
}

inline void write_values(const std::string& path, const std::string& name, const Extents& shape,
                         const Storage& storage = {}, hsize_t user_block = 0) {
  write_array(path, name, shape, H5T_NATIVE_INT32, values_of(shape).data(), storage, user_block);
}

}  // namespace kolo::data::test
