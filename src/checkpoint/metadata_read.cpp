#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>

#include "checkpoint/header.hpp"
#include "checkpoint/metadata.hpp"
#include "hdf5/library.hpp"
#include "hdf5/types.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

using hdf5::checked;
using hdf5::Id;

// Reserves as much address space as the file is large, but backs only the metadata with memory.
// HDF5 wants a file as large as its superblock says, and does not look at the data.
class Mapping {
 public:
  Mapping(const std::vector<unsigned char>& metadata, std::uint64_t size, const std::string& path)
      : size_(std::max<std::uint64_t>(size, metadata.size())) {
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED || ::mprotect(data_, metadata.size(), PROT_READ | PROT_WRITE) != 0) {
      throw FileError("cannot read " + path + ": no address space for its " +
                      std::to_string(size_) + " bytes: " + std::generic_category().message(errno) +
                      "; is there a limit (ulimit -v)?");
    }
    std::memcpy(data_, metadata.data(), metadata.size());
  }
  ~Mapping() {
    if (data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Lets HDF5 work directly on these bytes, which it never frees.
  H5FD_file_image_callbacks_t callbacks() {
    return {[](std::size_t, H5FD_file_image_op_t, void* mapping) {
              return static_cast<Mapping*>(mapping)->data_;
            },
            [](void* to, const void*, std::size_t, H5FD_file_image_op_t, void*) { return to; },
            [](void*, std::size_t, H5FD_file_image_op_t, void*) -> void* { return nullptr; },
            [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; },
            [](void* mapping) { return mapping; },
            [](void*) -> herr_t { return 0; },
            this};
  }

 private:
  void* data_ = MAP_FAILED;
  const std::size_t size_;
};

class Parser {
 public:
  Parser(std::uint64_t file_size, const std::string& path) : file_size_(file_size), path_(path) {}

  Table parse(hid_t file) {
    group(file, "", 0);
    return std::move(table_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(path_ + " is not a checkpoint that kolo can read: " + what);
  }
  std::string inside(const std::string& folder, const std::string& name) const {
    return folder.empty() ? name : folder + "/" + name;
  }

  void group(hid_t id, const std::string& path, int depth);
  void link(hid_t group, const std::string& name, const std::string& path, int depth);
  void dataset(hid_t id, const std::string& path);
  void attributes(hid_t id, const std::string& path);
  std::optional<Value> value(hid_t attribute);
  std::string text_attribute(hid_t id, const char* name);

  const std::uint64_t file_size_;
  const std::string& path_;
  const hdf5::Types types_;
  std::set<haddr_t> seen_;  // objects; an object with several names could be its own folder
  Table table_;
};

std::vector<std::string> names_of_links(hid_t group) {
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  // Groups of other programs may not track the order of creation.
  if (H5Literate(group, H5_INDEX_CRT_ORDER, H5_ITER_INC, nullptr, collect, &names) < 0) {
    names.clear();
    checked(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names), "H5Literate");
  }
  return names;
}

void Parser::group(hid_t id, const std::string& path, int depth) {
  if (depth > kDeepestGroup) refuse("its groups are nested too deeply at '" + path + "'");
  attributes(id, path);
  for (const std::string& name : names_of_links(id)) link(id, name, inside(path, name), depth);
}

void Parser::link(hid_t group_id, const std::string& name, const std::string& path, int depth) {
  H5L_info_t info;
  checked(H5Lget_info(group_id, name.c_str(), &info, H5P_DEFAULT), "H5Lget_info");
  if (info.type != H5L_TYPE_HARD) refuse("'" + path + "' is a link to elsewhere");
  const Id object(H5Oopen(group_id, name.c_str(), H5P_DEFAULT), "H5Oopen");
  H5O_info_t about;
  checked(H5Oget_info2(object.get(), &about, H5O_INFO_BASIC), "H5Oget_info2");
  if (!seen_.insert(about.addr).second) refuse("'" + path + "' has a second name");
  switch (H5Iget_type(object.get())) {
    case H5I_GROUP:
      return group(object.get(), path, depth + 1);
    case H5I_DATASET:
      return dataset(object.get(), path);
    default:
      refuse("'" + path + "' is neither a group nor a dataset");
  }
}

std::string Parser::text_attribute(hid_t id, const char* name) {
  if (checked(H5Aexists(id, name), "H5Aexists") == 0) return "";
  const Id attribute(H5Aopen(id, name, H5P_DEFAULT), "H5Aopen");
  const std::optional<Value> found = value(attribute.get());
  const auto* text = found ? std::get_if<std::string>(&*found) : nullptr;
  return text == nullptr ? "" : *text;
}

void Parser::dataset(hid_t id, const std::string& path) {
  if (path == "kolo/checksums") return;
  const Id creation(H5Dget_create_plist(id), "H5Dget_create_plist");
  if (H5Pget_layout(creation.get()) != H5D_CONTIGUOUS)
    refuse("the dataset '" + path + "' does not lie in one piece");

  TensorEntry entry;
  entry.name = path;
  const Id type(H5Dget_type(id), "H5Dget_type");
  const std::string named = text_attribute(id, "dtype");
  const std::optional<ElementType> element =
      named.empty() ? types_.find(type.get()) : element_type(named);
  if (!element || H5Tequal(type.get(), types_.of(*element)) <= 0)
    refuse("the dataset '" + path + "' has an element type that kolo does not know");
  entry.type = *element;
  const std::string kind = text_attribute(id, "kind");
  if (kind == "per_rank") entry.kind = Kind::kPerRank;
  if (kind == "text") entry.kind = Kind::kText;
  if (kind == "archive") entry.kind = Kind::kArchive;

  const Id space(H5Dget_space(id), "H5Dget_space");
  const int dimensions = checked(H5Sget_simple_extent_ndims(space.get()), "H5Sget_simple_extent");
  std::vector<hsize_t> extents(static_cast<std::size_t>(dimensions));
  if (dimensions > 0) {
    checked(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr),
            "H5Sget_simple_extent_dims");
  }
  entry.shape.assign(extents.begin(), extents.end());

  if (entry.kind == Kind::kPerRank && entry.shape.empty())
    refuse("the dataset '" + path +
           "' is kept for each rank, but lacks the dimension of the ranks");

  const std::optional<std::uint64_t> elements = elements_of(entry.shape);
  if (!elements || *elements > file_size_ / size_of(entry.type))
    refuse("the dataset '" + path + "' is larger than the file");
  if (*elements > 0) {
    entry.offset = H5Dget_offset(id);
    if (entry.offset == HADDR_UNDEF || entry.offset > file_size_ ||
        entry.bytes() > file_size_ - entry.offset)
      refuse("the dataset '" + path + "' does not lie within the file");
  }
  table_.tensors.push_back(std::move(entry));
}

void Parser::attributes(hid_t id, const std::string& path) {
  H5O_info_t info;
  checked(H5Oget_info2(id, &info, H5O_INFO_NUM_ATTRS), "H5Oget_info2");
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    const Id attribute(
        H5Aopen_by_idx(id, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT),
        "H5Aopen_by_idx");
    const ssize_t length = checked(H5Aget_name(attribute.get(), 0, nullptr), "H5Aget_name");
    std::string name(static_cast<std::size_t>(length) + 1, '\0');
    checked(H5Aget_name(attribute.get(), name.size(), name.data()), "H5Aget_name");
    name.resize(static_cast<std::size_t>(length));
    // Skips a value that this kolo does not know, perhaps from a newer minor version.
    if (std::optional<Value> found = value(attribute.get()))
      table_.values.emplace(inside(path, name), std::move(*found));
  }
}

std::optional<Value> Parser::value(hid_t attribute) {
  const Id type(H5Aget_type(attribute), "H5Aget_type");
  const Id space(H5Aget_space(attribute), "H5Aget_space");
  const hssize_t count = checked(H5Sget_simple_extent_npoints(space.get()), "H5Sget_simple_extent");
  const bool is_scalar = H5Sget_simple_extent_type(space.get()) == H5S_SCALAR;
  const auto read = [&](void* to) { checked(H5Aread(attribute, type.get(), to), "H5Aread"); };

  if (H5Tget_class(type.get()) == H5T_STRING) {
    const std::size_t size = H5Tget_size(type.get());
    if (!is_scalar || H5Tis_variable_str(type.get()) != 0 || size > kLongestText)
      return std::nullopt;
    std::string text(size, '\0');
    read(text.data());
    text.resize(text.find_last_not_of('\0') + 1);
    return text;
  }
  const std::optional<ElementType> element = types_.find(type.get());
  if (!element || (!is_scalar && count > static_cast<hssize_t>(kMostListed))) return std::nullopt;
  if (is_scalar && *element == ElementType::kBool) {
    std::int8_t truth = 0;
    read(&truth);
    return truth != 0;
  }
  const auto numbers = [&](auto zero) -> Value {
    std::vector<decltype(zero)> list(static_cast<std::size_t>(count));
    if (count > 0) read(list.data());
    if (is_scalar) return list.at(0);
    return list;
  };
  if (*element == ElementType::kInt64) return numbers(std::int64_t{0});
  if (*element == ElementType::kFloat64) return numbers(0.0);
  return std::nullopt;
}

}  // namespace

Table parse_metadata(const std::vector<unsigned char>& bytes, std::uint64_t file_size,
                     const std::string& path) {
  const hdf5::LibraryGuard guard;
  Mapping mapping(bytes, file_size, path);
  try {
    const Id access(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
    checked(H5Pset_fapl_core(access.get(), kHeaderBytes, false), "H5Pset_fapl_core");
    H5FD_file_image_callbacks_t callbacks = mapping.callbacks();
    checked(H5Pset_file_image_callbacks(access.get(), &callbacks), "H5Pset_file_image_callbacks");
    checked(H5Pset_file_image(access.get(), mapping.data(), mapping.size()), "H5Pset_file_image");
    const Id file(H5Fopen("checkpoint", H5F_ACC_RDONLY, access.get()), "H5Fopen");
    return Parser(file_size, path).parse(file.get());
  } catch (const InternalError& error) {
    throw DataError(path + " is not a checkpoint that kolo can read: " + error.what());
  }
}

}  // namespace kolo::checkpoint
