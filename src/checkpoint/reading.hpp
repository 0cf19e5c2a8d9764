// Reads checkpoints, and believes nothing that no checksum confirms.
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

// A file's description, read and checked by one rank and given to the others.
struct Description {
  std::uint64_t file_size = 0;
  std::vector<unsigned char> metadata;   // as in Metadata
  std::vector<std::uint64_t> checksums;  // of all pieces
};

// Throws FileError, DataError for what is damaged or no checkpoint, NewerVersionError; all name the
// file.
Description read_description(FileSystem& files, const std::string& path);

class Reader {
 public:
  Reader(FileSystem& files, const std::string& path)
      : Reader(files, path, read_description(files, path)) {}
  // Takes what another rank has read. The file is opened when the first tensor is read.
  Reader(FileSystem& files, std::string path, const Description& description);

  const std::string& path() const { return path_; }
  std::uint64_t file_size() const { return file_size_; }
  const Table& table() const { return table_; }

  // What the box has of a tensor (an index in the table), row-major, into `to`, which has room for
  // it. Reads the pieces that hold it. The functions throw DataError, which names the tensor, where
  // a checksum does not match, and FileError.
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
  std::vector<unsigned char> room_;  // for a piece of which only a part is wanted
};

}  // namespace kolo::checkpoint
