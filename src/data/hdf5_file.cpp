#include "data/hdf5_file.hpp"

#include "data/data_error.hpp"

namespace kolo::data {

using hdf5::checked;
using hdf5::Id;
using hdf5::LibraryGuard;

namespace {

std::string to_text(const std::vector<hsize_t>& extents) {
  std::string text;
  for (const hsize_t extent : extents)
    text.append(text.empty() ? "" : ", ").append(std::to_string(extent));
  return "[" + text + "]";
}

std::string layout_of(hid_t properties, std::size_t dimensions) {
  const H5D_layout_t layout = H5Pget_layout(properties);
  if (layout == H5D_VIRTUAL) return "virtual";
  if (layout == H5D_COMPACT) return "compact";
  if (layout != H5D_CHUNKED) {
    return checked(H5Pget_external_count(properties), "H5Pget_external_count") > 0 ? "external"
                                                                                   : "contiguous";
  }
  std::vector<hsize_t> chunk(dimensions);
  checked(H5Pget_chunk(properties, static_cast<int>(chunk.size()), chunk.data()), "H5Pget_chunk");
  return "chunks " + to_text(chunk);
}

std::vector<std::string> filters_of(hid_t properties) {
  std::vector<std::string> filters;
  const int count = checked(H5Pget_nfilters(properties), "H5Pget_nfilters");
  for (int i = 0; i < count; ++i) {
    char name[64] = "";
    unsigned flags = 0;
    unsigned parameter = 0;
    std::size_t parameters = 1;
    const H5Z_filter_t filter =
        checked(H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &parameters,
                               &parameter, sizeof name, name, nullptr),
                "H5Pget_filter2");
    std::string text = name[0] == '\0' ? "filter " + std::to_string(filter) : name;
    if (filter == H5Z_FILTER_DEFLATE) text = "gzip " + std::to_string(parameter);
    filters.push_back(std::move(text));
  }
  return filters;
}

std::optional<std::uint64_t> checksum_of(hid_t dataset) {
  if (H5Aexists(dataset, kChecksumAttribute) <= 0) return std::nullopt;
  const Id attribute(H5Aopen(dataset, kChecksumAttribute, H5P_DEFAULT), "H5Aopen");
  const Id space(H5Aget_space(attribute.get()), "H5Aget_space");
  const Id type(H5Aget_type(attribute.get()), "H5Aget_type");
  const bool is_ours =
      H5Sget_simple_extent_npoints(space.get()) == 1 && H5Tget_class(type.get()) == H5T_INTEGER;
  if (!is_ours) return std::nullopt;
  std::uint64_t checksum = 0;
  checked(H5Aread(attribute.get(), H5T_NATIVE_UINT64, &checksum), "H5Aread");
  return checksum;
}

}  // namespace

Id opened_file(const std::string& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) {
    fail(path, "is not an HDF5 file, or is damaged (" + hdf5::last_error() + ")",
         "check that it was written to its end and that no program has it open for writing");
  }
  return {file, "H5Fopen"};
}

std::vector<std::string> datasets_in(hid_t file) {
  std::vector<std::string> names;
  const herr_t code = H5Ovisit2(
      file, H5_INDEX_NAME, H5_ITER_INC,
      [](hid_t, const char* name, const H5O_info_t* info, void* to) -> herr_t {
        if (info->type == H5O_TYPE_DATASET)
          static_cast<std::vector<std::string>*>(to)->emplace_back(name);
        return 0;
      },
      &names, H5O_INFO_BASIC);
  if (code < 0) throw DataError("its list of datasets cannot be read (" + hdf5::last_error() + ")");
  return names;
}

std::optional<StoredType> stored_type(hid_t dataset, const hdf5::Types& types) {
  Id type(H5Dget_type(dataset), "H5Dget_type");
  if (const auto found = types.find(type.get())) return StoredType{*found, true};
  if (H5Tget_class(type.get()) == H5T_ENUM) type = Id(H5Tget_super(type.get()), "H5Tget_super");
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind == H5T_INTEGER || kind == H5T_FLOAT) {
    if (const auto found = types.find(type.get())) return StoredType{*found, true};
    const Id swapped(H5Tcopy(type.get()), "H5Tcopy");
    checked(H5Tset_order(swapped.get(), H5T_ORDER_LE), "H5Tset_order");
    if (const auto found = types.find(swapped.get())) return StoredType{*found, false};
  }
  return std::nullopt;
}

std::vector<std::size_t> extents_of(hid_t dataset) {
  const Id space(H5Dget_space(dataset), "H5Dget_space");
  const int dimensions =
      checked(H5Sget_simple_extent_ndims(space.get()), "H5Sget_simple_extent_ndims");
  std::vector<hsize_t> extents(static_cast<std::size_t>(dimensions));
  checked(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr),
          "H5Sget_simple_extent_dims");
  return {extents.begin(), extents.end()};
}

std::vector<StoredArray> arrays_in(const std::string& path) {
  const LibraryGuard guard;
  const hdf5::Types types;
  const Id file = opened_file(path);
  std::vector<StoredArray> arrays;
  for (const std::string& name : datasets_in(file.get())) {
    const hid_t opened = H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT);
    if (opened < 0) {
      fail(path, "its dataset '" + name + "' cannot be opened (" + hdf5::last_error() + ")",
           kGetAgain);
    }
    const Id dataset(opened, "H5Dopen2");
    const Id properties(H5Dget_create_plist(dataset.get()), "H5Dget_create_plist");
    StoredArray array;
    array.name = name;
    if (const auto type = stored_type(dataset.get(), types)) array.type = type->element;
    array.shape = extents_of(dataset.get());
    array.layout = layout_of(properties.get(), array.shape.size());
    array.filters = filters_of(properties.get());
    array.stored_bytes = H5Dget_storage_size(dataset.get());
    array.checksum = checksum_of(dataset.get());
    arrays.push_back(std::move(array));
  }
  return arrays;
}

}  // namespace kolo::data
