#include "checkpoint/header.hpp"

#include "checkpoint/pieces.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace kolo::checkpoint {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "checkpoints are little endian; this machine would have to swap bytes");

constexpr char kMagic[] = {'K', 'O', 'L', 'O', 'C', 'K', 'P', 'T'};
constexpr std::size_t kChecksumAt = 120;
// More metadata than any checkpoint has. It limits how much memory a wrong number can ask for.
constexpr std::uint64_t kMostMetadata = std::uint64_t{4} << 30;

// Visits the fields in the order of the grammar, after the magic.
template <typename Header, typename Field>
void for_each_field(Header& header, Field&& field) {
  field(8, header.major);
  field(10, header.minor);
  field(16, header.file_size);
  field(24, header.metadata_end);
  field(32, header.checksums_offset);
  field(40, header.checksums_count);
  field(48, header.metadata_checksum);
  field(56, header.checksums_checksum);
}

bool begins_with(const HeaderBytes& bytes, const char* text, std::size_t size) {
  return std::memcmp(bytes.data(), text, size) == 0;
}

std::string what_it_is(const HeaderBytes& bytes) {
  if (begins_with(bytes, "\211HDF\r\n\032\n", 8)) return "an HDF5 file that kolo has not written";
  if (begins_with(bytes, "PK\003\004", 4)) {
    return "a zip archive, as torch::save writes it; convert it with `kolo checkpoint convert`";
  }
  for (const unsigned char byte : bytes)
    if (byte != 0) return "something else, or damaged at its beginning";
  return "a file that begins with zeros: its writing was not finished, or it is damaged";
}

}  // namespace

std::uint64_t checksum(const void* data, std::size_t size) {
  return XXH3_64bits(data, size);
}

HeaderBytes encode(const Header& header) {
  HeaderBytes bytes{};
  std::memcpy(bytes.data(), kMagic, sizeof kMagic);
  for_each_field(header, [&](std::size_t at, const auto& value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  });
  const std::uint64_t sum = checksum(bytes.data(), kChecksumAt);
  std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
  return bytes;
}

Header decode_header(const HeaderBytes& bytes, std::uint64_t size, const std::string& path) {
  if (!begins_with(bytes, kMagic, sizeof kMagic))
    throw DataError(path + " is not a checkpoint of kolo; it is " + what_it_is(bytes));
  Header header;
  for_each_field(header, [&](std::size_t at, auto& value) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
  });
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + kChecksumAt, sizeof sum);
  if (sum != checksum(bytes.data(), kChecksumAt))
    throw DataError(path + " is damaged: its header does not match its checksum");
  if (header.major > kMajor) {
    throw NewerVersionError(path + " was written by a newer kolo, in format " +
                            std::to_string(header.major) + "." + std::to_string(header.minor) +
                            "; this one reads up to " + std::to_string(kMajor) +
                            ".x: use a newer kolo");
  }
  if (header.file_size != size) {
    throw DataError(path + " is damaged: it has " + std::to_string(size) +
                    " bytes and should have " + std::to_string(header.file_size) +
                    (size < header.file_size ? "; it was cut off" : ""));
  }
  const std::uint64_t room = size - header.checksums_offset;
  // Every piece is full, except the last one of a dataset. Each dataset has more metadata than
  // this.
  constexpr std::uint64_t kLeastOfDataset = 64;
  const std::uint64_t most_checksums =
      header.file_size / kPieceBytes + header.metadata_end / kLeastOfDataset;
  if (header.major == 0 || header.metadata_end <= kHeaderBytes || header.metadata_end > size ||
      header.metadata_end > kMostMetadata || header.checksums_offset > size ||
      header.checksums_count > room / sizeof(std::uint64_t) ||
      header.checksums_count > most_checksums)
    throw DataError(path + " is damaged: its header has impossible numbers");
  return header;
}

}  // namespace kolo::checkpoint
