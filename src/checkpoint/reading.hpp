// Reads checkpoints, and trusts only what a checksum confirms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/box.hpp"
#include "checkpoint/file_system.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/table.hpp"

namespace kolo::checkpoint {

// A file's description. One rank reads and checks it, and sends it to the others.
struct Description {
  std::uint64_t file_size = 0;
  std::vector<unsigned char> metadata;   // as in Metadata
  std::vector<std::uint64_t> checksums;  // of all pieces
};

// Reads and checks a description. Throws FileError, NewerVersionError, or DataError if the file is
// damaged or not a checkpoint; all name the file.
Description read_description(FileSystem& files, const std::string& path);

class Reader {
 public:
  Reader(FileSystem& files, const std::string& path)
      : Reader(files, path, read_description(files, path)) {}
  // Takes a description that another rank has read. Opens the file when the first tensor is read.
  Reader(FileSystem& files, std::string path, const Description& description);

  const std::string& path() const { return path_; }
  std::uint64_t file_size() const { return file_size_; }
  const Table& table() const { return table_; }

  // Reads a box of a tensor (an index in the table), row-major, into `to`, which must have room for
  // it. Reads all pieces that the box touches. These functions throw FileError, and DataError,
  // which names the tensor, if a checksum does not match.
  void read(std::size_t tensor, const Box& box, void* to);
  void read(std::size_t tensor, void* to);  // all of it
  void verify(std::size_t tensor);

 private:
  void read_piece(const Piece& piece, unsigned char* to);

  FileSystem& files_;  // outlives the reader
  const std::string path_;
  const std::uint64_t file_size_;
  const Table table_;
  const Pieces pieces_;
  const std::vector<std::uint64_t> checksums_;
  std::unique_ptr<File> file_;
  std::vector<unsigned char> room_;  // for a piece of which only a part is needed
};

}  // namespace kolo::checkpoint
