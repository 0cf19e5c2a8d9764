#include "tools/data/input.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "data/byte_source.hpp"
#include "data/csv.hpp"
#include "data/hdf5_array.hpp"
#include "data/hdf5_file.hpp"
#include "data/image.hpp"
#include "data/image_files.hpp"
#include "data/memory_array.hpp"
#include "data/npy_file.hpp"
#include "kolo/data/idx.h"
#include "tools/command.hpp"
#include "tools/data/npz.hpp"

namespace kolo::tools {
namespace {

using data::ArrayForm;

constexpr std::size_t kCacheBytes = std::size_t{32} << 20U;

// The first bytes of a file, or of its content if it is gzip. Zeros follow the end.
struct Start {
  std::array<std::uint8_t, 8> bytes{};
  bool is_packed = false;
};

Start start_of(const std::string& path) {
  Start start;
  data::FileSource file(path);
  file.read(start.bytes.data(), start.bytes.size());
  start.is_packed = data::is_gzip(start.bytes.data(), start.bytes.size());
  if (!start.is_packed) return start;
  data::FileSource packed(path);
  start.bytes = {};
  data::GzipSource(packed, nullptr, 0, path).read(start.bytes.data(), start.bytes.size());
  return start;
}

DataFormat format_of(const std::array<std::uint8_t, 8>& start) {
  const auto begins_with = [&](const std::string& magic) {
    return std::equal(magic.begin(), magic.end(), start.begin(), [](char left, std::uint8_t right) {
      return static_cast<std::uint8_t>(left) == right;
    });
  };
  if (begins_with("\x89HDF\r\n")) return DataFormat::kHdf5;
  if (begins_with("\x93NUMPY")) return DataFormat::kNpy;
  if (begins_with("PK\x03\x04")) return DataFormat::kNpz;
  if (start[0] == 0 && start[1] == 0 && start[2] != 0) return DataFormat::kIdx;
  return DataFormat::kCsv;
}

ElementType element_of(data::IdxType type) {
  static const std::map<data::IdxType, ElementType> kTypes{
      {data::IdxType::kUint8, ElementType::kUint8},
      {data::IdxType::kInt8, ElementType::kInt8},
      {data::IdxType::kInt16, ElementType::kInt16},
      {data::IdxType::kInt32, ElementType::kInt32},
      {data::IdxType::kFloat32, ElementType::kFloat32},
      {data::IdxType::kFloat64, ElementType::kFloat64}};
  return kTypes.at(type);
}

std::unique_ptr<data::Array> open_idx(const std::string& path) {
  data::IdxArray array = data::read_idx(path);
  ArrayForm form(element_of(array.dtype), array.shape, path);
  return std::make_unique<data::MemoryArray>(std::move(form), std::move(array.bytes));
}

template <class T>
std::unique_ptr<data::Array> in_memory(ElementType type, const std::vector<std::int64_t>& shape,
                                       const std::vector<T>& values, const std::string& path) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return std::make_unique<data::MemoryArray>(ArrayForm(type, shape, path), std::move(bytes));
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : "\n").append(name);
  return text;
}

Samples open_csv(const std::string& path, const Choice& choice) {
  const data::CsvSamples read = data::read_csv(path, choice.delimiter, choice.targets);
  const auto rows = static_cast<std::int64_t>(read.rows);
  const auto width = static_cast<std::int64_t>(read.columns.size());
  Samples opened;
  opened.samples = in_memory(ElementType::kFloat32, {rows, width}, read.values, path);
  opened.notes.emplace_back("columns", joined(read.columns));
  if (choice.targets.empty()) return opened;
  if (read.targets_are_whole) {
    const std::vector<std::int64_t> whole(read.targets.begin(), read.targets.end());
    opened.targets = in_memory(ElementType::kInt64, {rows}, whole, path);
  } else {
    const std::vector<float> rounded(read.targets.begin(), read.targets.end());
    opened.targets = in_memory(ElementType::kFloat32, {rows}, rounded, path);
  }
  return opened;
}

std::vector<std::uint8_t> bytes_of(const std::string& path) {
  data::FileSource file(path);
  std::vector<std::uint8_t> bytes(file.total_at_most());
  file.read(bytes.data(), bytes.size());
  return bytes;
}

// Images [N, 3, height, width], decoded when they are read. All must have the size of the first.
class Images : public data::Array {
 public:
  explicit Images(std::vector<std::string> paths)
      : paths_(std::move(paths)), form_(form_of(paths_)) {}

  const ArrayForm& form() const override { return form_; }
  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) const override {
    for (const std::size_t row : rows) {
      const data::Image image = decoded(paths_[row]);
      const auto height = static_cast<std::size_t>(form_.shape()[2]);
      const auto width = static_cast<std::size_t>(form_.shape()[3]);
      if (image.height != height || image.width != width) {
        data::fail(paths_[row],
                   "has " + size_text(image.height, image.width) + " pixels, and " +
                       paths_.front() + " has " + size_text(height, width),
                   "scale all images to one size before (or train with kolo::data::ImageFolder, "
                   "which scales them)");
      }
      to = copy_planes(image, to);
    }
  }

 private:
  static constexpr std::size_t kChannels = 3;

  static data::Image decoded(const std::string& path) {
    return data::decode_image(bytes_of(path), kChannels, path);
  }
  static std::string size_text(std::size_t height, std::size_t width) {
    return std::to_string(height) + " x " + std::to_string(width);
  }
  static ArrayForm form_of(const std::vector<std::string>& paths) {
    const data::Image first = decoded(paths.front());
    return {ElementType::kUint8,
            {static_cast<std::int64_t>(paths.size()), kChannels,
             static_cast<std::int64_t>(first.height), static_cast<std::int64_t>(first.width)},
            paths.front()};
  }
  // Returns the position after the copy.
  static std::uint8_t* copy_planes(const data::Image& image, std::uint8_t* to) {
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      for (std::size_t i = channel; i < image.pixels.size(); i += kChannels)
        *to++ = image.pixels[i];
    }
    return to;
  }

  const std::vector<std::string> paths_;
  const ArrayForm form_;
};

Samples open_images(const std::string& folder) {
  data::ImageFiles files = data::list_images(folder);
  Samples opened;
  opened.targets = in_memory(ElementType::kInt64, {static_cast<std::int64_t>(files.labels.size())},
                             files.labels, folder);
  opened.notes.emplace_back("classes", joined(files.classes));
  opened.samples = std::make_unique<Images>(std::move(files.paths));
  return opened;
}

Samples open_hdf5(const std::string& path, const Choice& choice) {
  const std::string samples = choice.samples.empty() ? "samples" : choice.samples;
  Samples opened;
  opened.samples = std::make_unique<data::Hdf5Array>(path, samples, kCacheBytes);
  const std::vector<data::StoredArray> arrays = data::arrays_in(path);
  const bool has_targets = std::any_of(arrays.begin(), arrays.end(),
                                       [](const auto& array) { return array.name == "targets"; });
  if (!choice.targets.empty() || has_targets) {
    const std::string targets = choice.targets.empty() ? "targets" : choice.targets;
    opened.targets = std::make_unique<data::Hdf5Array>(path, targets, kCacheBytes);
  }
  return opened;
}

Samples open_npz(const std::string& path, const Choice& choice) {
  const std::vector<std::string> names = arrays_in_npz(path);
  const bool has_targets = std::find(names.begin(), names.end(), "targets") != names.end();
  Samples opened;
  opened.samples = read_npz(path, choice.samples.empty() ? "samples" : choice.samples);
  if (!choice.targets.empty() || has_targets)
    opened.targets = read_npz(path, choice.targets.empty() ? "targets" : choice.targets);
  return opened;
}

}  // namespace

DataFormat data_format_of(const std::string& path) {
  std::error_code unreadable;  // opening the file then says why
  if (std::filesystem::is_directory(path, unreadable)) return DataFormat::kImages;
  const Start start = start_of(path);
  const DataFormat format = format_of(start.bytes);
  const bool may_be_packed = format == DataFormat::kIdx || format == DataFormat::kCsv;
  if (!start.is_packed || may_be_packed) return format;
  throw DataError(path + ": is a gzip-compressed " + name_of(format) +
                  " file; this form is read in place, so unpack the file with gunzip");
}

const char* name_of(DataFormat format) {
  switch (format) {
    case DataFormat::kHdf5:
      return "HDF5";
    case DataFormat::kNpy:
      return "NumPy";
    case DataFormat::kNpz:
      return "NumPy (.npz)";
    case DataFormat::kIdx:
      return "IDX";
    case DataFormat::kCsv:
      return "CSV";
    case DataFormat::kImages:
      return "folder of images";
  }
  return "unknown";
}

Samples open_samples(const std::string& path, const Choice& choice) {
  const DataFormat format = data_format_of(path);
  const auto refuse = [&](const std::string& given, const char* option) {
    if (given.empty()) return;
    throw UsageError(std::string(option) + " is for files with several arrays, and " + path +
                     " is " + (format == DataFormat::kIdx ? "an " : "a ") + name_of(format) +
                     (format == DataFormat::kImages ? "" : " file"));
  };
  const bool has_names = format == DataFormat::kHdf5 || format == DataFormat::kNpz;
  if (!has_names) refuse(choice.samples, "--samples");
  if (!has_names && format != DataFormat::kCsv) refuse(choice.targets, "--targets");
  switch (format) {
    case DataFormat::kHdf5:
      return open_hdf5(path, choice);
    case DataFormat::kNpz:
      return open_npz(path, choice);
    case DataFormat::kCsv:
      return open_csv(path, choice);
    case DataFormat::kImages:
      return open_images(path);
    case DataFormat::kNpy:
    case DataFormat::kIdx:
      break;
  }
  Samples opened;
  opened.samples = open_array(path);
  return opened;
}

std::unique_ptr<data::Array> open_array(const std::string& path) {
  switch (data_format_of(path)) {
    case DataFormat::kNpy:
      return std::make_unique<data::NpyFile>(path);
    case DataFormat::kIdx:
      return open_idx(path);
    default:
      throw UsageError(path +
                       " has more than one array; targets in a file of their own are .npy or "
                       "IDX files");
  }
}

}  // namespace kolo::tools
