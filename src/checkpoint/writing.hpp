// A checkpoint is written under a temporary name, and renamed once it is complete and on the disk:
//
//   rank 0:       begin_file()
//   every writer: write_pieces()
//   rank 0:       complete_file(), once all writers are done
//
// Whenever this is interrupted, no file with the final name is incomplete. All throw FileError.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/file_system.hpp"
#include "checkpoint/metadata.hpp"
#include "checkpoint/pieces.hpp"

namespace kolo::checkpoint {

// Returns the name of the file until it is complete.
std::string partial_path(const std::string& path);

// Creates the file in its full size.
void begin_file(FileSystem& files, const std::string& path, std::uint64_t file_size);

struct PieceData {
  Piece piece;
  const void* data = nullptr;  // piece.bytes long; valid until write_pieces() returns
};
struct PieceSum {
  std::uint64_t number = 0;
  std::uint64_t checksum = 0;
};
// Writes the pieces, which are in file order. They are on the disk when it returns.
std::vector<PieceSum> write_pieces(FileSystem& files, const std::string& path,
                                   const std::vector<PieceData>& pieces);

// `sums`: of every piece, in any order. Throws InternalError if one is missing.
void complete_file(FileSystem& files, const std::string& path, Metadata metadata,
                   const std::vector<PieceSum>& sums, std::size_t pieces);

// Removes a file that will not be completed. Throws nothing.
void abandon_file(FileSystem& files, const std::string& path) noexcept;

}  // namespace kolo::checkpoint
