#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "checkpoint/header.hpp"
#include "checkpoint/metadata.hpp"
#include "hdf5/library.hpp"
#include "hdf5/types.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

using hdf5::checked;
using hdf5::Id;

constexpr std::uint64_t kAlignment = 4096;  // of tensors of at least this size: pages, blocks
constexpr std::uint64_t kFirstGuess = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostMetadata = std::uint64_t{2} << 30;

// The file that HDF5 sees, kept in memory. It never grows to the size of the data, because HDF5 is
// set not to fill the datasets, and writes only when the file is closed.
class Image {
 public:
  ~Image() { std::free(data_); }
  Image() = default;
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  std::size_t size() const { return size_; }

  H5FD_file_image_callbacks_t callbacks() {
    return {&allocate, &copy, &reallocate, &release, &share, &unshare, this};
  }

 private:
  static void* allocate(std::size_t size, H5FD_file_image_op_t, void*) { return std::malloc(size); }
  static void* copy(void* to, const void* from, std::size_t size, H5FD_file_image_op_t, void*) {
    return std::memcpy(to, from, size);
  }
  static void* reallocate(void* data, std::size_t size, H5FD_file_image_op_t operation,
                          void* image) {
    void* const moved = std::realloc(data, size);
    if (moved != nullptr && operation == H5FD_FILE_IMAGE_OP_FILE_RESIZE)
      static_cast<Image*>(image)->size_ = size;
    return moved;
  }
  // Keeps the bytes when the file is closed.
  static herr_t release(void* data, H5FD_file_image_op_t operation, void* image) {
    if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE) {
      static_cast<Image*>(image)->data_ = data;
    } else {
      std::free(data);
    }
    return 0;
  }
  static void* share(void* image) { return image; }
  static herr_t unshare(void*) { return 0; }

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// One attempt at the skeleton, with a given size of metadata blocks.
class Skeleton {
 public:
  explicit Skeleton(std::uint64_t metadata_block) { open(metadata_block); }

  void add(TensorEntry& entry);
  void add(const std::string& path, const Value& value);
  // Ends the skeleton. Nothing can be added afterwards.
  void close();

  const Image& image() const { return image_; }
  std::uint64_t first_data() const { return first_data_; }
  std::uint64_t last_data() const { return last_data_; }

 private:
  void open(std::uint64_t metadata_block);
  hid_t group_of(const std::string& path);
  hid_t group(const std::string& path);
  void attribute(hid_t object, const std::string& name, const Value& value);
  void write_attribute(hid_t object, const std::string& name, hid_t type, const Id& space,
                       const void* data);

  Image image_;
  const hdf5::Types types_;
  const Id scalar_{H5Screate(H5S_SCALAR), "H5Screate"};
  Id link_properties_, group_properties_, dataset_properties_;
  Id file_;
  std::map<std::string, Id> groups_;
  std::uint64_t first_data_ = UINT64_MAX;
  std::uint64_t last_data_ = 0;
};

void Skeleton::open(std::uint64_t metadata_block) {
  const Id access(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  const Id creation(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate");
  // The format version that every library since 2008 reads, and that contains checksums.
  checked(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18),
          "H5Pset_libver_bounds");
  checked(H5Pset_meta_block_size(access.get(), metadata_block), "H5Pset_meta_block_size");
  checked(H5Pset_alignment(access.get(), kAlignment, kAlignment), "H5Pset_alignment");
  checked(H5Pset_fapl_core(access.get(), kAlignment, false), "H5Pset_fapl_core");
  H5FD_file_image_callbacks_t callbacks = image_.callbacks();
  checked(H5Pset_file_image_callbacks(access.get(), &callbacks), "H5Pset_file_image_callbacks");
  checked(H5Pset_userblock(creation.get(), kHeaderBytes), "H5Pset_userblock");

  link_properties_ = Id(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate");
  checked(H5Pset_char_encoding(link_properties_.get(), H5T_CSET_UTF8), "H5Pset_char_encoding");
  group_properties_ = Id(H5Pcreate(H5P_GROUP_CREATE), "H5Pcreate");
  dataset_properties_ = Id(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  const unsigned tracked = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
  const hid_t dataset = dataset_properties_.get();
  for (const hid_t properties : {creation.get(), group_properties_.get()})
    checked(H5Pset_link_creation_order(properties, tracked), "H5Pset_link_creation_order");
  // Without times, the same state gives the same bytes.
  for (const hid_t properties : {creation.get(), group_properties_.get(), dataset})
    checked(H5Pset_obj_track_times(properties, false), "H5Pset_obj_track_times");
  checked(H5Pset_layout(dataset, H5D_CONTIGUOUS), "H5Pset_layout");
  checked(H5Pset_alloc_time(dataset, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  checked(H5Pset_fill_time(dataset, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  file_ = Id(H5Fcreate("skeleton", H5F_ACC_TRUNC, creation.get(), access.get()), "H5Fcreate");
}

hid_t Skeleton::group(const std::string& path) {
  if (path.empty()) return file_.get();
  Id& id = groups_[path];
  if (id.get() < 0) {
    const hid_t parent = group_of(path);
    const std::string name = path.substr(path.find_last_of('/') + 1);
    id = Id(H5Gcreate2(parent, name.c_str(), link_properties_.get(), group_properties_.get(),
                       H5P_DEFAULT),
            "H5Gcreate2");
  }
  return id.get();
}

// Returns the group that contains the object at `path`.
hid_t Skeleton::group_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return group(slash == std::string::npos ? "" : path.substr(0, slash));
}

void Skeleton::add(TensorEntry& entry) {
  std::vector<hsize_t> extents(entry.shape.begin(), entry.shape.end());
  const Id space(extents.empty()
                     ? H5Screate(H5S_SCALAR)
                     : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                 "H5Screate_simple");
  const std::string name = entry.name.substr(entry.name.find_last_of('/') + 1);
  const Id dataset(
      H5Dcreate2(group_of(entry.name), name.c_str(), types_.of(entry.type), space.get(),
                 link_properties_.get(), dataset_properties_.get(), H5P_DEFAULT),
      "H5Dcreate2");
  constexpr const char* kKinds[] = {"", "per_rank", "text", "archive"};
  if (entry.kind != Kind::kTensor)
    attribute(dataset.get(), "kind", std::string(kKinds[static_cast<int>(entry.kind)]));
  if (types_.find(types_.of(entry.type)) != entry.type)
    attribute(dataset.get(), "dtype", std::string(name_of(entry.type)));
  entry.offset = 0;
  const std::uint64_t bytes = entry.bytes();
  if (bytes == 0) return;
  entry.offset = H5Dget_offset(dataset.get());
  if (entry.offset == HADDR_UNDEF) hdf5::fail("H5Dget_offset");
  first_data_ = std::min(first_data_, entry.offset);
  last_data_ = std::max(last_data_, entry.offset + bytes);
}

void Skeleton::add(const std::string& path, const Value& value) {
  attribute(group_of(path), path.substr(path.find_last_of('/') + 1), value);
}

void Skeleton::write_attribute(hid_t object, const std::string& name, hid_t type, const Id& space,
                               const void* data) {
  const Id attribute(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                     "H5Acreate2");
  checked(H5Awrite(attribute.get(), type, data), "H5Awrite");
}

void Skeleton::attribute(hid_t object, const std::string& name, const Value& value) {
  const auto write = [&](ElementType type, const void* data) {
    write_attribute(object, name, types_.of(type), scalar_, data);
  };
  const auto write_list = [&](ElementType type, const auto& list) {
    const hsize_t extent = list.size();
    write_attribute(object, name, types_.of(type),
                    Id(H5Screate_simple(1, &extent, nullptr), "H5Screate_simple"),
                    list.empty() ? static_cast<const void*>(&extent) : list.data());
  };
  if (const auto* truth = std::get_if<bool>(&value)) {
    const std::int8_t number = *truth ? 1 : 0;
    write(ElementType::kBool, &number);
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    write(ElementType::kInt64, integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    write(ElementType::kFloat64, real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    // HDF5 has no empty text. Writes one zero byte, which is removed as padding when read.
    const std::string padded = text->empty() ? std::string(1, '\0') : *text;
    write_attribute(object, name, hdf5::text_type(padded.size()).get(), scalar_, padded.data());
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    write_list(ElementType::kInt64, *integers);
  } else {
    write_list(ElementType::kFloat64, std::get<std::vector<double>>(value));
  }
}

void Skeleton::close() {
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) group->second.reset();
  checked(H5Fclose(file_.release()), "H5Fclose");
  if (image_.data() == nullptr) throw InternalError("HDF5 did not close its file in memory");
}

void check_value(const std::string& path, const Value& value) {
  std::size_t size = 0;
  std::size_t most = kMostListed;
  if (const auto* text = std::get_if<std::string>(&value)) {
    size = text->size();
    most = kLongestText;
    if (!text->empty() && text->back() == '\0') {
      throw InvalidArgumentError("checkpoint: the text '" + path +
                                 "' ends with a zero byte, which would be lost");
    }
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    size = integers->size();
  } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    size = reals->size();
  }
  if (size > most) {
    throw InvalidArgumentError("checkpoint: the value '" + path + "' has " + std::to_string(size) +
                               (most == kLongestText ? " bytes" : " elements") + ", and at most " +
                               std::to_string(most) + " can be kept as a value; give a tensor");
  }
}

void check_tensor(const TensorEntry& entry) {
  if (entry.shape.size() > H5S_MAX_RANK) {
    throw InvalidArgumentError("checkpoint: the tensor '" + entry.name + "' has " +
                               std::to_string(entry.shape.size()) + " dimensions; HDF5 has up to " +
                               std::to_string(H5S_MAX_RANK));
  }
  if (!elements_of(entry.shape)) {
    throw InvalidArgumentError("checkpoint: the tensor '" + entry.name +
                               "' has an impossible shape");
  }
}

// HDF5 would also detect these errors, but its messages are less clear.
void check_names(const Table& table) {
  std::map<std::string, const char*> names;
  const auto take = [&](const std::string& path, const char* what) {
    for (const std::string& part : split_name(path)) {
      if (part.find('\0') == std::string::npos) continue;
      throw InvalidArgumentError("checkpoint: the name '" + path + "' holds a zero byte");
    }
    if (std::count(path.begin(), path.end(), '/') > kDeepestGroup)
      throw InvalidArgumentError("checkpoint: the name '" + path + "' has too many parts");
    if (path.empty() || !names.emplace(path, what).second)
      throw InvalidArgumentError("checkpoint: the name '" + path + "' is empty or was given twice");
  };
  for (const TensorEntry& entry : table.tensors) take(entry.name, "a tensor");
  for (const auto& [path, value] : table.values) take(path, "a value");
  for (const auto& [path, what] : names) {
    for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      const auto found = names.find(path.substr(0, at));
      if (found != names.end()) {
        throw InvalidArgumentError("checkpoint: '" + found->first + "' is " + found->second +
                                   " and cannot hold '" + path + "'");
      }
    }
  }
}

std::unique_ptr<Skeleton> build(Table& table, TensorEntry& checksums, std::uint64_t block) {
  auto skeleton = std::make_unique<Skeleton>(block);
  for (TensorEntry& entry : table.tensors) skeleton->add(entry);
  for (const auto& [path, value] : table.values) skeleton->add(path, value);
  skeleton->add(checksums);
  skeleton->close();
  return skeleton;
}

// Whether all metadata lie in one piece before the data.
bool is_in_front(const Skeleton& skeleton, std::uint64_t block) {
  return skeleton.image().size() <= std::min(kHeaderBytes + block, skeleton.first_data());
}

std::uint64_t rounded_up(std::uint64_t number) {
  return (number + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Metadata make_metadata(Table& table, std::uint64_t checksums, std::uint64_t expected_bytes) {
  const hdf5::LibraryGuard guard;
  check_names(table);
  for (const TensorEntry& entry : table.tensors) check_tensor(entry);
  for (const auto& [path, value] : table.values) check_value(path, value);

  TensorEntry sums{"kolo/checksums", ElementType::kUint64, {static_cast<std::int64_t>(checksums)}};
  // HDF5 puts metadata into blocks of a given size. A block that just holds all of them lies at the
  // front of the file. A first attempt with a surely large enough block tells the right size.
  std::uint64_t block = rounded_up(expected_bytes);
  std::unique_ptr<Skeleton> skeleton;
  if (block > 0) skeleton = build(table, sums, block);
  if (skeleton == nullptr || !is_in_front(*skeleton, block)) {
    block = kFirstGuess;
    while (!is_in_front(*(skeleton = build(table, sums, block)), block)) {
      if (block >= kMostMetadata) {
        throw InvalidArgumentError("checkpoint: " + std::to_string(table.tensors.size()) +
                                   " tensors and " + std::to_string(table.values.size()) +
                                   " values are more than a checkpoint can describe");
      }
      block *= 2;
    }
    block = rounded_up(skeleton->image().size() - kHeaderBytes);
    skeleton = build(table, sums, block);
    if (!is_in_front(*skeleton, block))
      throw InternalError("HDF5 put metadata behind the data; please report its version");
  }

  Metadata metadata;
  const Image& image = skeleton->image();
  metadata.bytes.assign(image.data(), image.data() + image.size());
  std::memset(metadata.bytes.data(), 0, kHeaderBytes);
  metadata.checksums_offset = sums.offset;
  // HDF5 wants a file of at least the size that its superblock names.
  std::uint64_t named = 0;
  constexpr std::size_t kEndOfFileAt = 28;  // HDF5 File Format Specification 3.0, II.A, version 2
  std::memcpy(&named, metadata.bytes.data() + kHeaderBytes + kEndOfFileAt, sizeof named);
  metadata.file_size =
      std::max({named, skeleton->last_data(), static_cast<std::uint64_t>(metadata.bytes.size())});
  return metadata;
}

}  // namespace kolo::checkpoint
