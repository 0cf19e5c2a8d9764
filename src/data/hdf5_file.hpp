// Opens HDF5 files, and describes their contents. Callers hold a LibraryGuard, except where a
// function says that it takes one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/element_type.hpp"
#include "hdf5/library.hpp"
#include "hdf5/types.hpp"

namespace kolo::data {

// Closes HDF5's identifiers under its lock. Members close from the last to the first.
struct OpenDataset {
  OpenDataset() = default;
  OpenDataset(const OpenDataset&) = delete;
  OpenDataset& operator=(const OpenDataset&) = delete;
  ~OpenDataset() {
    const hdf5::LibraryGuard guard;
    dataset.reset();
    file.reset();
  }
  hdf5::Id file;
  hdf5::Id dataset;
};

// Opens a file for reading. Throws DataError.
hdf5::Id opened_file(const std::string& path);

// Returns the names of all datasets in a file, sorted.
std::vector<std::string> datasets_in(hid_t file);

struct StoredType {
  ElementType element = ElementType::kFloat32;
  bool is_ours = false;  // the bytes in the file equal those in memory
};

// Returns the element type of a dataset, or nothing if tensors have no such type.
std::optional<StoredType> stored_type(hid_t dataset, const hdf5::Types& types);

// Returns the extents of a dataset in all dimensions.
std::vector<std::size_t> extents_of(hid_t dataset);

// Describes a dataset and its storage.
struct StoredArray {
  std::string name;
  std::optional<ElementType> type;        // without a value: a type that tensors lack
  std::vector<std::size_t> shape;         // in elements
  std::string layout;                     // "contiguous", "virtual", "chunks [10, 28, 28]"
  std::vector<std::string> filters;       // HDF5's names, or "gzip 4" with its level
  std::uint64_t stored_bytes = 0;         // in the file
  std::optional<std::uint64_t> checksum;  // the value of kChecksumAttribute
};

// A dataset's attribute with the XXH3 (64 bits) of its elements, row-major and little-endian.
inline constexpr auto kChecksumAttribute = "kolo_xxh3";

// Lists the datasets of a file in the order of their names. Takes the guard. Throws DataError.
std::vector<StoredArray> arrays_in(const std::string& path);

}  // namespace kolo::data
