#include "checkpoint/reading.hpp"

#include <algorithm>
#include <cstring>

#include "checkpoint/header.hpp"
#include "checkpoint/metadata.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw DataError(path + " is damaged: " + what);
}

void read_all(File& file, const std::string& path, std::uint64_t offset, void* to,
              std::size_t size) {
  if (file.read(offset, to, size) != size) damaged(path, "it ends too early");
}

}  // namespace

Description read_description(FileSystem& files, const std::string& path) {
  const std::unique_ptr<File> file = files.open_to_read(path);
  Description description;
  description.file_size = file->size();
  if (description.file_size == 0) damaged(path, "it is empty");
  HeaderBytes bytes{};
  const std::size_t got = file->read(0, bytes.data(), bytes.size());
  const Header header = decode_header(bytes, description.file_size, path);
  if (got < bytes.size()) damaged(path, "it ends too early");

  description.metadata.resize(header.metadata_end);
  read_all(*file, path, kHeaderBytes, description.metadata.data() + kHeaderBytes,
           description.metadata.size() - kHeaderBytes);
  if (checksum(description.metadata.data() + kHeaderBytes,
               description.metadata.size() - kHeaderBytes) != header.metadata_checksum)
    damaged(path, "its table of contents does not match its checksum");

  description.checksums.resize(header.checksums_count);
  const std::size_t size = description.checksums.size() * sizeof(std::uint64_t);
  if (size > 0) read_all(*file, path, header.checksums_offset, description.checksums.data(), size);
  if (checksum(description.checksums.data(), size) != header.checksums_checksum)
    damaged(path, "its list of checksums does not match its own checksum");
  return description;
}

Reader::Reader(FileSystem& files, std::string path, const Description& description)
    : files_(files),
      path_(std::move(path)),
      file_size_(description.file_size),
      table_(parse_metadata(description.metadata, description.file_size, path_)),
      pieces_(table_),
      checksums_(description.checksums) {
  if (pieces_.count() != checksums_.size()) {
    damaged(path_, "it has " + std::to_string(checksums_.size()) + " checksums for " +
                       std::to_string(pieces_.count()) + " pieces");
  }
}

void Reader::read_piece(const Piece& piece, unsigned char* to) {
  if (file_ == nullptr) {
    file_ = files_.open_to_read(path_);
    if (file_->size() != file_size_) damaged(path_, "it changes while it is read");
  }
  read_all(*file_, path_, piece.offset, to, piece.bytes);
  if (checksum(to, piece.bytes) == checksums_[piece.number]) return;
  const TensorEntry& entry = table_.tensors[piece.tensor];
  damaged(path_, "'" + entry.name + "' does not match its checksum, in bytes " +
                     std::to_string(piece.begin) + " to " +
                     std::to_string(piece.begin + piece.bytes) + " of " +
                     std::to_string(entry.bytes()));
}

void Reader::read(std::size_t tensor, void* to) {
  auto* const bytes = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < pieces_.count(tensor); ++i) {
    const Piece piece = pieces_.piece(tensor, i);
    read_piece(piece, bytes + piece.begin);
  }
}

void Reader::read(std::size_t tensor, const Box& box, void* to) {
  const TensorEntry& entry = table_.tensors[tensor];
  if (elements_of(box) == elements_of(entry.shape)) return read(tensor, to);
  auto* const bytes = static_cast<unsigned char*>(to);
  const std::uint64_t element = size_of(entry.type);
  std::optional<std::size_t> held;  // number of the piece in room_
  for_each_run(entry.shape, box, [&](const Run& run) {
    std::uint64_t at = run.in_tensor * element;
    unsigned char* into = bytes + run.in_box * element;
    const std::uint64_t end = at + run.elements * element;
    while (at < end) {
      const Piece piece = pieces_.containing(tensor, at);
      const std::uint64_t part = std::min(end, piece.begin + piece.bytes) - at;
      if (part == piece.bytes) {
        read_piece(piece, into);
      } else {
        room_.resize(kPieceBytes);
        if (held != piece.number) read_piece(piece, room_.data());
        held = piece.number;
        std::memcpy(into, room_.data() + (at - piece.begin), part);
      }
      at += part;
      into += part;
    }
  });
}

void Reader::verify(std::size_t tensor) {
  room_.resize(kPieceBytes);
  for (std::size_t i = 0; i < pieces_.count(tensor); ++i)
    read_piece(pieces_.piece(tensor, i), room_.data());
}

}  // namespace kolo::checkpoint
