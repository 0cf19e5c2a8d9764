// Writes arrays into a new HDF5 file.
#pragma once

#include <cstdint>
#include <string>

#include "data/array.hpp"
#include "hdf5/library.hpp"

namespace kolo::tools {

// Options for storing an array.
struct Storage {
  int gzip_level = 0;          // 1 to 9; 0: not compressed
  std::size_t chunk_rows = 0;  // 0: contiguous, or for gzip what default_chunk_rows() says
};

// Returns how many rows make a compressed chunk of about 8 KiB. A shuffled read decompresses a
// whole chunk for each row, and smaller chunks compress badly.
std::size_t default_chunk_rows(const data::ArrayForm& form);

// Writes a new file, which is called PATH.partial until finish() has put all of it on the disk and
// gives it its name. The destructor removes PATH.partial. Throws FileError if the system fails,
// with a full disk for example.
class ArrayWriter {
 public:
  explicit ArrayWriter(std::string path);
  ~ArrayWriter();
  ArrayWriter(const ArrayWriter&) = delete;
  ArrayWriter& operator=(const ArrayWriter&) = delete;

  // Copies all of an array, 8 MiB or a chunk at a time, and stores its checksum beside it
  // (data::kChecksumAttribute). Also throws DataError, if the array cannot be read.
  void add(const std::string& name, const data::Array& array, const Storage& storage);
  // Stores a text as an attribute of the file, or as a dataset if it is too long for an attribute.
  void note(const std::string& name, const std::string& text);
  void finish();

 private:
  // Calls a function under HDF5's lock, and turns HDF5's errors into FileError.
  template <class Function>
  auto write(Function&& function);

  const std::string path_;
  const std::string partial_;
  hdf5::Id file_;
  bool is_finished_ = false;
};

}  // namespace kolo::tools
