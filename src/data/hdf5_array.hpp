// An array in an HDF5 file, read by rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/array.hpp"
#include "data/row_reader.hpp"

namespace kolo::data {

class DataFile;

// An HDF5 dataset of numbers. (HDF5 calls an array in a file a dataset; in kolo a dataset is a
// source of samples.)
//
// Reads contiguous data with preadv(), and decompresses chunks outside of HDF5's library, which
// admits one thread at a time. The library reads what kolo cannot: virtual datasets, external
// files, other byte orders, and filters other than deflate, shuffle and fletcher32.
class Hdf5Array : public Array {
 public:
  // Opens the file, and reads the array's description. cache_bytes: for decompressed chunks.
  //
  // Throws DataError with the file, the reason and a remedy if the file is missing, damaged or not
  // HDF5, if it has no such dataset (with the names of those that it has), and if the dataset is
  // not an array of numbers with at least one dimension, or needs a filter that is not installed.
  Hdf5Array(const std::string& path, const std::string& name, std::size_t cache_bytes);

  const ArrayForm& form() const override { return form_; }
  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) const override;

 private:
  // Constant after construction.
  ArrayForm form_;
  std::shared_ptr<const DataFile> file_;
  std::unique_ptr<RowReader> reader_;
};

}  // namespace kolo::data
