#include "data/chunk_table.hpp"

namespace kolo::data {
namespace {

using hdf5::checked;
using hdf5::Id;

// With a user block, some versions of HDF5 return addresses relative to its end.
bool has_user_block(hid_t file) {
  const Id creation(H5Fget_create_plist(file), "H5Fget_create_plist");
  hsize_t size = 0;
  checked(H5Pget_userblock(creation.get(), &size), "H5Pget_userblock");
  return size > 0;
}

}  // namespace

std::optional<ChunkTable> ChunkTable::make(hid_t file, hid_t dataset, std::size_t dimensions) {
  if (has_user_block(file)) return std::nullopt;
  ChunkTable table;
#if H5_VERSION_GE(1, 14, 0)
  struct Collected {
    ChunkTable& table;
    std::size_t dimensions;
  } collected{table, dimensions};
  const auto collect = [](const hsize_t* offset, unsigned skipped, haddr_t address, hsize_t size,
                          void* to) -> int {
    auto& all = *static_cast<Collected*>(to);
    all.table.chunks_[{offset, offset + all.dimensions}] = {address, size, skipped};
    return H5_ITER_CONT;
  };
  checked(H5Dchunk_iter(dataset, H5P_DEFAULT, collect, &collected), "H5Dchunk_iter");
#else
  constexpr hsize_t kMost = 4096;
  const Id space(H5Dget_space(dataset), "H5Dget_space");
  hsize_t count = 0;
  checked(H5Dget_num_chunks(dataset, space.get(), &count), "H5Dget_num_chunks");
  if (count > kMost) return std::nullopt;
  std::vector<hsize_t> offset(dimensions);
  for (hsize_t i = 0; i < count; ++i) {
    haddr_t address = HADDR_UNDEF;
    hsize_t size = 0;
    unsigned skipped = 0;
    checked(H5Dget_chunk_info(dataset, space.get(), i, offset.data(), &skipped, &address, &size),
            "H5Dget_chunk_info");
    if (address != HADDR_UNDEF)
      table.chunks_[{offset.begin(), offset.end()}] = {address, size, skipped};
  }
#endif
  return table;
}

const StoredChunk* ChunkTable::find(const std::vector<std::size_t>& offset) const {
  const auto found = chunks_.find(offset);
  return found == chunks_.end() ? nullptr : &found->second;
}

}  // namespace kolo::data
