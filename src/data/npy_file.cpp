#include "data/npy_file.hpp"

#include <algorithm>

#include "kolo/error.h"

namespace kolo::data {
namespace {

NpyArray array_in(const DataFile& file) {
  std::vector<std::uint8_t> beginning(std::min<std::uint64_t>(file.size(), kLongestNpyHeader));
  std::vector<iovec> whole{{beginning.data(), beginning.size()}};
  file.read(0, whole);
  return parse_npy(beginning, file.size(), file.path());
}

}  // namespace

NpyFile::NpyFile(const std::string& path) : NpyFile(std::make_shared<const DataFile>(path)) {}

NpyFile::NpyFile(const std::shared_ptr<const DataFile>& file) : NpyFile(file, array_in(*file)) {}

NpyFile::NpyFile(const std::shared_ptr<const DataFile>& file, const NpyArray& array)
    : file_(file),
      form_(array.type, array.shape, file_->path()),
      reader_(std::make_unique<ContiguousRows>(file_, array.offset, form_.row_bytes())) {}

void NpyFile::read(const std::vector<std::size_t>& rows, std::uint8_t* to) const {
  try {
    if (form_.row_bytes() > 0) reader_->read(rows, to);
  } catch (const DataError&) {
    file_->require_unchanged();  // a change (truncation, say) is then the real reason
    throw;
  }
  file_->require_unchanged();
}

}  // namespace kolo::data
