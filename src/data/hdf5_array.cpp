#include "data/hdf5_array.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "data/chunk_table.hpp"
#include "data/chunked_rows.hpp"
#include "data/contiguous_rows.hpp"
#include "data/data_error.hpp"
#include "data/hdf5_file.hpp"
#include "data/rows_in_memory.hpp"
#include "hdf5/library.hpp"
#include "hdf5/types.hpp"

namespace kolo::data {
namespace {

using hdf5::checked;
using hdf5::Id;
using hdf5::LibraryGuard;

// Returns a prefix for errors: "/data/train.h5: dataset 'samples'".
std::string name_of(const std::string& path, const std::string& name) {
  return path + ": dataset '" + name + "'";
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  if (names.empty()) return "the file has none";
  std::string text = "the file has ";
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

Id opened_dataset(hid_t file, const std::string& path, const std::string& name,
                  std::size_t cache_bytes) {
  const Id access(H5Pcreate(H5P_DATASET_ACCESS), "H5Pcreate");
  constexpr std::size_t kSlots = 10007;  // HDF5 advises a prime
  checked(H5Pset_chunk_cache(access.get(), kSlots, cache_bytes, H5D_CHUNK_CACHE_W0_DEFAULT),
          "H5Pset_chunk_cache");
  const hid_t dataset = H5Dopen2(file, name.c_str(), access.get());
  if (dataset < 0) {
    const std::vector<std::string> there = datasets_in(file);
    if (std::find(there.begin(), there.end(), name) != there.end())
      fail(name_of(path, name), "cannot be opened (" + hdf5::last_error() + ")", kGetAgain);
    fail(path, "has no dataset '" + name + "'; " + listed(there), "give one of these names");
  }
  return {dataset, "H5Dopen2"};
}

// Returns a dataset's filters, or nothing if there is one that kolo does not undo itself. Throws if
// HDF5 lacks one of those.
std::optional<std::vector<ChunkFilter>> filters_of(hid_t properties, const std::string& what) {
  std::vector<ChunkFilter> filters;
  bool all_are_ours = true;
  int deflates = 0;
  const int count = checked(H5Pget_nfilters(properties), "H5Pget_nfilters");
  for (int i = 0; i < count; ++i) {
    char name[64] = "";
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter =
        checked(H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr,
                               sizeof name, name, nullptr),
                "H5Pget_filter2");
    if (filter == H5Z_FILTER_DEFLATE) {
      filters.push_back(ChunkFilter::kDeflate);
      ++deflates;
    } else if (filter == H5Z_FILTER_SHUFFLE) {
      filters.push_back(ChunkFilter::kShuffle);
    } else if (filter == H5Z_FILTER_FLETCHER32) {
      filters.push_back(ChunkFilter::kFletcher32);
    } else if (H5Zfilter_avail(filter) > 0) {
      all_are_ours = false;
    } else {
      fail(what,
           "is stored with the filter " + std::to_string(filter) + " (" +
               (name[0] == '\0' ? "without a name" : std::string(name)) +
               "), which this HDF5 does not have",
           "install it and set HDF5_PLUGIN_PATH to its folder, or store the dataset with gzip");
    }
  }
  if (!all_are_ours || deflates > 1) return std::nullopt;
  return filters;
}

// Throws if a source is missing, which HDF5 would read as fill values.
void require_sources(hid_t properties, const std::string& path, const std::string& what) {
  std::size_t count = 0;
  checked(H5Pget_virtual_count(properties, &count), "H5Pget_virtual_count");
  for (std::size_t i = 0; i < count; ++i) {
    std::string name(4096, '\0');
    const ssize_t length = checked(H5Pget_virtual_filename(properties, i, name.data(), name.size()),
                                   "H5Pget_virtual_filename");
    name.resize(std::min(name.size() - 1, static_cast<std::size_t>(length)));
    if (name == "." || name.find('%') != std::string::npos) continue;  // this file; a pattern
    const std::filesystem::path beside = std::filesystem::path(path).parent_path() / name;
    std::error_code unreadable;  // counts as missing
    if (std::filesystem::exists(beside, unreadable) || std::filesystem::exists(name, unreadable)) {
      continue;
    }
    fail(what, "is a virtual dataset, and its source " + name + " is missing",
         "put that file beside this one");
  }
}

// Reads with HDF5's library.
class LibraryRows : public RowReader {
 public:
  LibraryRows(std::shared_ptr<OpenDataset> dataset, std::string what, ElementType type,
              std::vector<std::size_t> shape, std::size_t row_bytes)
      : dataset_(std::move(dataset)),
        what_(std::move(what)),
        type_(type),
        shape_(std::move(shape)),
        row_bytes_(row_bytes) {}

  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) override {
    const LibraryGuard guard;
    const hdf5::Types types;
    for (std::size_t i = 0; i < rows.size();) {
      std::size_t end = i + 1;
      while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
      read(rows[i], end - i, types.of(type_), to + i * row_bytes_);
      i = end;
    }
  }

 private:
  void read(std::size_t first, std::size_t count, hid_t type, std::uint8_t* to) {
    std::vector<hsize_t> begin(shape_.size(), 0);
    std::vector<hsize_t> extents(shape_.begin(), shape_.end());
    begin[0] = first;
    extents[0] = count;
    const auto dimensions = static_cast<int>(extents.size());
    const Id memory(H5Screate_simple(dimensions, extents.data(), nullptr), "H5Screate_simple");
    const Id space(H5Dget_space(dataset_->dataset.get()), "H5Dget_space");
    checked(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin.data(), nullptr, extents.data(),
                                nullptr),
            "H5Sselect_hyperslab");
    if (H5Dread(dataset_->dataset.get(), type, memory.get(), space.get(), H5P_DEFAULT, to) < 0)
      fail(what_, "cannot be read (" + hdf5::last_error() + ")", kGetAgain);
  }

  const std::shared_ptr<OpenDataset> dataset_;
  const std::string what_;
  const ElementType type_;
  const std::vector<std::size_t> shape_;
  const std::size_t row_bytes_;
};

// Reads stored chunks from the addresses in the table.
ChunkedRows::ReadChunk reader_by_table(std::shared_ptr<const DataFile> file, ChunkTable table,
                                       std::string what) {
  return [file = std::move(file), table = std::move(table),
          what = std::move(what)](const std::vector<std::size_t>& offset) -> ChunkedRows::Stored {
    const StoredChunk* const chunk = table.find(offset);
    if (chunk == nullptr) return {};
    if (chunk->size > file->size()) fail(what, "has a chunk larger than the file", kGetAgain);
    std::vector<std::uint8_t> bytes(chunk->size);
    std::vector<iovec> whole{{bytes.data(), bytes.size()}};
    file->read(chunk->address, whole);
    return {std::move(bytes), chunk->skipped};
  };
}

// Reads stored chunks with HDF5's library, one thread at a time.
ChunkedRows::ReadChunk reader_by_library(std::shared_ptr<OpenDataset> dataset, std::string what) {
  return [dataset = std::move(dataset),
          what = std::move(what)](const std::vector<std::size_t>& offset) -> ChunkedRows::Stored {
    const LibraryGuard guard;
    const hid_t id = dataset->dataset.get();
    const std::vector<hsize_t> at(offset.begin(), offset.end());
    hsize_t size = 0;
    if (H5Dget_chunk_storage_size(id, at.data(), &size) < 0) {
      // HDF5 1.10 also fails for a chunk that was never written.
      unsigned mask = 0;
      haddr_t address = HADDR_UNDEF;
      if (H5Dget_chunk_info_by_coord(id, at.data(), &mask, &address, &size) < 0)
        fail(what, "has a damaged index of chunks (" + hdf5::last_error() + ")", kGetAgain);
      if (address == HADDR_UNDEF) return {};
    }
    std::vector<std::uint8_t> bytes(size);
    std::uint32_t skipped = 0;
    if (size > 0 && H5Dread_chunk(id, H5P_DEFAULT, at.data(), &skipped, bytes.data()) < 0)
      fail(what, "cannot be read (" + hdf5::last_error() + ")", kGetAgain);
    return {std::move(bytes), skipped};
  };
}

std::optional<ChunkTable> chunk_table(hid_t file, hid_t dataset, std::size_t dimensions,
                                      const std::string& what) {
  try {
    return ChunkTable::make(file, dataset, dimensions);
  } catch (const InternalError& error) {
    fail(what, std::string("has a damaged index of chunks (") + error.what() + ")", kGetAgain);
  }
}

// Whether an array is read whole and kept. Labels are: 32 MiB hold four million of 8 bytes.
bool is_kept(const ArrayForm& form, std::size_t cache_bytes) {
  constexpr std::size_t kMostRowBytes = 64;
  return form.row_bytes() > 0 && form.row_bytes() <= kMostRowBytes &&
         form.rows() <= cache_bytes / form.row_bytes();
}

std::vector<std::uint8_t> fill_of(hid_t properties, hid_t type, std::size_t element_size) {
  std::vector<std::uint8_t> fill(element_size);
  checked(H5Pget_fill_value(properties, type, fill.data()), "H5Pget_fill_value");
  return fill;
}

}  // namespace

// `dataset` is declared before the guard, so that it outlives the guard if the constructor throws:
// its destructor takes the guard itself.
Hdf5Array::Hdf5Array(const std::string& path, const std::string& name, std::size_t cache_bytes)
    : file_(std::make_shared<const DataFile>(path)) {
  const std::string what = name_of(path, name);
  const auto dataset = std::make_shared<OpenDataset>();
  const LibraryGuard guard;
  const hdf5::Types types;
  dataset->file = opened_file(path);
  dataset->dataset = opened_dataset(dataset->file.get(), path, name, cache_bytes);
  const hid_t id = dataset->dataset.get();
  const std::optional<StoredType> stored = stored_type(id, types);
  if (!stored) {
    fail(what, "does not hold numbers of a type that tensors have",
         "convert it to integers or floating-point numbers of 8, 16, 32 or 64 bits");
  }
  const std::vector<std::size_t> shape = extents_of(id);
  form_ = ArrayForm(stored->element, {shape.begin(), shape.end()}, what);

  const Id properties(H5Dget_create_plist(id), "H5Dget_create_plist");
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_VIRTUAL) require_sources(properties.get(), path, what);
  const auto filters = filters_of(properties.get(), what);
  const haddr_t offset = layout == H5D_CONTIGUOUS ? H5Dget_offset(id) : HADDR_UNDEF;
  const std::size_t element_size = size_of(form_.type());
  const bool has_elements = form_.row_bytes() > 0 && form_.rows() > 0;
  if (stored->is_ours && has_elements && offset != HADDR_UNDEF) {
    reader_ = std::make_unique<ContiguousRows>(file_, offset, form_.row_bytes());
  } else if (stored->is_ours && has_elements && layout == H5D_CHUNKED && filters) {
    std::vector<hsize_t> chunk(shape.size());
    checked(H5Pget_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data()),
            "H5Pget_chunk");
    auto table = chunk_table(dataset->file.get(), id, shape.size(), what);
    reader_ = std::make_unique<ChunkedRows>(
        ChunkGrid{shape, {chunk.begin(), chunk.end()}, element_size}, *filters,
        fill_of(properties.get(), types.of(form_.type()), element_size),
        table ? reader_by_table(file_, std::move(*table), what) : reader_by_library(dataset, what),
        what, cache_bytes);
  } else {
    reader_ = std::make_unique<LibraryRows>(dataset, what, form_.type(), shape, form_.row_bytes());
  }
  if (is_kept(form_, cache_bytes))
    reader_ = std::make_unique<RowsInMemory>(std::move(reader_), form_.rows(), form_.row_bytes());
}

void Hdf5Array::read(const std::vector<std::size_t>& rows, std::uint8_t* to) const {
  try {
    reader_->read(rows, to);
  } catch (const DataError&) {
    file_->require_unchanged();  // a change is then the real reason
    throw;
  }
  file_->require_unchanged();
}

}  // namespace kolo::data
