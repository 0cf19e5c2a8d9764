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

// The file gets its name in finish(), when all of it is on the disk; until then it is
// PATH.partial, which the destructor removes. Throws FileError if the system fails, with a full
// disk for example.
class ArrayWriter {
 public:
  explicit ArrayWriter(std::string path);
  ~ArrayWriter();
  ArrayWriter(const ArrayWriter&) = delete;
  ArrayWriter& operator=(const ArrayWriter&) = delete;

  // Copies all of an array, 8 MiB or a chunk at a time, and stores its checksum beside it
  // (data::kChecksumAttribute). Throws DataError, too, if the array cannot be read.
  void add(const std::string& name, const data::Array& array, const Storage& storage);
  // Stores a text as an attribute of the file; as a dataset, if it is too long for one.
  void note(const std::string& name, const std::string& text);
  void finish();

 private:
  // Calls a function under HDF5's lock; an error of HDF5's becomes a FileError.
  template <class Function>
  auto write(Function&& function);

  const std::string path_;
  const std::string partial_;
  hdf5::Id file_;
  bool is_finished_ = false;
};

}  // namespace kolo::tools
