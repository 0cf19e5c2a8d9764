#include "checkpoint/writing.hpp"

#include <cstring>

#include "checkpoint/header.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {

std::string partial_path(const std::string& path) {
  return path + ".partial";
}

void begin_file(FileSystem& files, const std::string& path, std::uint64_t file_size) {
  const std::unique_ptr<File> file = files.create(partial_path(path));
  file->resize(file_size);
  file->close();
}

std::vector<PieceSum> write_pieces(FileSystem& files, const std::string& path,
                                   const std::vector<PieceData>& pieces) {
  std::vector<PieceSum> sums;
  if (pieces.empty()) return sums;
  const std::unique_ptr<File> file = files.open_to_write(partial_path(path));
  for (const auto& [piece, data] : pieces) {
    sums.push_back({piece.number, checksum(data, piece.bytes)});
    file->write(piece.offset, data, piece.bytes);
  }
  file->sync();
  file->close();
  return sums;
}

void complete_file(FileSystem& files, const std::string& path, Metadata metadata,
                   const std::vector<PieceSum>& sums, std::size_t pieces) {
  std::vector<std::uint64_t> checksums(pieces);
  std::vector<bool> known(pieces);
  std::size_t found = 0;
  for (const PieceSum& sum : sums) {
    if (sum.number >= pieces || known[sum.number]) continue;
    known[sum.number] = true;
    checksums[sum.number] = sum.checksum;
    ++found;
  }
  if (found != pieces) {
    throw InternalError("checkpoint " + path + ": " + std::to_string(pieces - found) + " of " +
                        std::to_string(pieces) + " pieces were not written");
  }

  const std::size_t checksums_bytes = checksums.size() * sizeof checksums[0];
  Header header;
  header.file_size = metadata.file_size;
  header.metadata_end = metadata.bytes.size();
  header.checksums_offset = metadata.checksums_offset;
  header.checksums_count = checksums.size();
  header.metadata_checksum =
      checksum(metadata.bytes.data() + kHeaderBytes, metadata.bytes.size() - kHeaderBytes);
  header.checksums_checksum = checksum(checksums.data(), checksums_bytes);
  const HeaderBytes bytes = encode(header);
  std::memcpy(metadata.bytes.data(), bytes.data(), bytes.size());

  const std::unique_ptr<File> file = files.open_to_write(partial_path(path));
  if (checksums_bytes > 0) file->write(header.checksums_offset, checksums.data(), checksums_bytes);
  file->write(0, metadata.bytes.data(), metadata.bytes.size());
  file->sync();
  file->close();
  files.rename(partial_path(path), path);
  files.sync_folder(folder_of(path));
}

void abandon_file(FileSystem& files, const std::string& path) noexcept {
  try {
    files.remove(partial_path(path));
  } catch (const Error&) {
    // The file may not exist. The failure of the checkpoint itself is reported elsewhere.
    return;
  }
}

}  // namespace kolo::checkpoint
