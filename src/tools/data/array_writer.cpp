#include "tools/data/array_writer.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "checkpoint/file_system.hpp"
#include "checkpoint/writing.hpp"
#include "data/hdf5_file.hpp"
#include "hdf5/types.hpp"
#include "kolo/error.h"
#include "tools/data/pieces.hpp"

namespace kolo::tools {
namespace {

using hdf5::checked;
using hdf5::Id;
using hdf5::LibraryGuard;

std::vector<hsize_t> extents_of(const data::ArrayForm& form) {
  return {form.shape().begin(), form.shape().end()};
}

// Returns the properties of the array's dataset.
Id properties_of(const data::ArrayForm& form, const Storage& storage) {
  Id properties(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  const bool has_elements = form.rows() > 0 && form.row_bytes() > 0;
  if (storage.chunk_rows == 0 || !has_elements) return properties;
  std::vector<hsize_t> chunk = extents_of(form);
  chunk[0] = std::min<hsize_t>(chunk[0], storage.chunk_rows);
  checked(H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()),
          "H5Pset_chunk");
  if (storage.gzip_level > 0) {
    checked(H5Pset_shuffle(properties.get()), "H5Pset_shuffle");
    checked(H5Pset_deflate(properties.get(), static_cast<unsigned>(storage.gzip_level)),
            "H5Pset_deflate");
  }
  return properties;
}

void write_rows(hid_t dataset, hid_t type, const data::ArrayForm& form, const RowPiece& piece) {
  std::vector<hsize_t> begin(form.shape().size(), 0);
  std::vector<hsize_t> extents = extents_of(form);
  begin[0] = piece.first;
  extents[0] = piece.count;
  const Id memory(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                  "H5Screate_simple");
  const Id space(H5Dget_space(dataset), "H5Dget_space");
  checked(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin.data(), nullptr, extents.data(),
                              nullptr),
          "H5Sselect_hyperslab");
  checked(H5Dwrite(dataset, type, memory.get(), space.get(), H5P_DEFAULT, piece.bytes.data()),
          "H5Dwrite");
}

void write_attribute(hid_t object, const char* name, hid_t type, const void* value) {
  const Id space(H5Screate(H5S_SCALAR), "H5Screate");
  const Id attribute(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                     "H5Acreate2");
  checked(H5Awrite(attribute.get(), type, value), "H5Awrite");
}

// Returns the system's reason within HDF5's long text; without one, the whole text.
std::string reason_in(const std::string& text) {
  const std::string begin = "error message = '";
  const std::size_t found = text.find(begin);
  if (found == std::string::npos) return text;
  const std::size_t first = found + begin.size();
  return text.substr(first, text.find('\'', first) - first);
}

}  // namespace

std::size_t default_chunk_rows(const data::ArrayForm& form) {
  constexpr std::size_t kChunkBytes = 8192;
  return std::max<std::size_t>(1, kChunkBytes / std::max<std::size_t>(1, form.row_bytes()));
}

template <class Function>
auto ArrayWriter::write(Function&& function) {
  const LibraryGuard guard;
  try {
    return function();
  } catch (const InternalError& error) {
    throw FileError("cannot write " + partial_ + ": " + reason_in(error.what()) +
                    "; check that there is room and that this user may write there");
  }
}

ArrayWriter::ArrayWriter(std::string path)
    : path_(std::move(path)), partial_(checkpoint::partial_path(path_)) {
  // Creates the file without HDF5 first, because the system's errors say more than HDF5's.
  checkpoint::system_files().create(partial_)->close();
  try {
    file_ = write([&] {
      return Id(H5Fcreate(partial_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "H5Fcreate");
    });
  } catch (const Error&) {
    checkpoint::abandon_file(checkpoint::system_files(), path_);
    throw;
  }
}

ArrayWriter::~ArrayWriter() {
  {
    const LibraryGuard guard;
    file_.reset();
  }
  if (!is_finished_) checkpoint::abandon_file(checkpoint::system_files(), path_);
}

void ArrayWriter::add(const std::string& name, const data::Array& array, const Storage& storage) {
  const data::ArrayForm& form = array.form();
  Storage chosen = storage;
  if (chosen.gzip_level > 0 && chosen.chunk_rows == 0) chosen.chunk_rows = default_chunk_rows(form);
  chosen.chunk_rows = std::min(chosen.chunk_rows, form.rows());
  constexpr std::size_t kMostOfChunk = std::numeric_limits<std::uint32_t>::max();
  if (chosen.chunk_rows > kMostOfChunk / std::max<std::size_t>(1, form.row_bytes())) {
    throw InvalidArgumentError("chunks of " + std::to_string(chosen.chunk_rows) +
                               " samples have 4 GiB or more, which HDF5 does not store; choose a "
                               "smaller --chunk");
  }
  // The lock is held while it is closed, also if reading the array fails.
  struct Open {
    ~Open() {
      const LibraryGuard guard;
      dataset.reset();
    }
    Id dataset;
  } open;
  write([&] {
    const hdf5::Types types;
    const std::vector<hsize_t> extents = extents_of(form);
    const Id space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                   "H5Screate_simple");
    const Id properties = properties_of(form, chosen);
    open.dataset = Id(H5Dcreate2(file_.get(), name.c_str(), types.of(form.type()), space.get(),
                                 H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                      "H5Dcreate2");
  });
  const auto store = [&](const RowPiece& piece) {
    write([&] {
      const hdf5::Types types;
      write_rows(open.dataset.get(), types.of(form.type()), form, piece);
    });
  };
  const std::uint64_t checksum =
      for_each_piece(array, std::max<std::size_t>(1, chosen.chunk_rows), store);
  write([&] {
    write_attribute(open.dataset.get(), data::kChecksumAttribute, H5T_NATIVE_UINT64, &checksum);
  });
}

void ArrayWriter::note(const std::string& name, const std::string& text) {
  if (text.empty()) return;  // HDF5 has no text without characters
  write([&] {
    const Id type = hdf5::text_type(text.size());
    constexpr std::size_t kMostOfAttribute = 64000;
    if (text.size() <= kMostOfAttribute)
      return write_attribute(file_.get(), name.c_str(), type.get(), text.data());
    const Id space(H5Screate(H5S_SCALAR), "H5Screate");
    const Id dataset(H5Dcreate2(file_.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                H5P_DEFAULT, H5P_DEFAULT),
                     "H5Dcreate2");
    checked(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()),
            "H5Dwrite");
  });
}

void ArrayWriter::finish() {
  write([&] { checked(H5Fclose(file_.release()), "H5Fclose"); });
  checkpoint::FileSystem& files = checkpoint::system_files();
  const auto written = files.open_to_write(partial_);
  written->sync();
  written->close();
  files.rename(partial_, path_);
  files.sync_folder(checkpoint::folder_of(path_));
  is_finished_ = true;
}

}  // namespace kolo::tools
