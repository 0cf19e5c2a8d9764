#include "tools/data/npz.hpp"

#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "data/data_error.hpp"
#include "data/memory_array.hpp"
#include "data/npy.hpp"

namespace kolo::tools {
namespace {

constexpr std::string_view kEnding = ".npy";

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

class Archive {
 public:
  explicit Archive(std::string path) : path_(std::move(path)) {
    int code = 0;
    archive_.reset(zip_open(path_.c_str(), ZIP_RDONLY, &code));
    if (archive_ != nullptr) return;
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    data::fail(path_, "cannot be read (" + reason + ")", data::kGetAgain);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      const char* const name = zip_get_name(archive_.get(), static_cast<zip_uint64_t>(i), 0);
      if (name != nullptr) all.emplace_back(name);
    }
    return all;
  }

  // Memory grows only with the bytes that are really read.
  std::vector<std::uint8_t> read(const std::string& name) const {
    const std::unique_ptr<zip_file_t, Discard> file(zip_fopen(archive_.get(), name.c_str(), 0));
    if (file == nullptr) fail(name, zip_strerror(archive_.get()));
    constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;
    std::vector<std::uint8_t> bytes;
    for (;;) {
      const std::size_t have = bytes.size();
      bytes.resize(have + kPieceBytes);
      const zip_int64_t got = zip_fread(file.get(), bytes.data() + have, kPieceBytes);
      if (got < 0) fail(name, zip_error_strerror(zip_file_get_error(file.get())));
      bytes.resize(have + static_cast<std::size_t>(got));
      if (got == 0) return bytes;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& reason) const {
    data::fail(path_, "its array '" + name + "' cannot be read (" + reason + ")", data::kGetAgain);
  }

  const std::string path_;
  std::unique_ptr<zip_t, Discard> archive_;
};

}  // namespace

std::vector<std::string> arrays_in_npz(const std::string& path) {
  std::vector<std::string> arrays;
  for (const std::string& name : Archive(path).names())
    if (name.ends_with(kEnding)) arrays.push_back(name.substr(0, name.size() - kEnding.size()));
  if (arrays.empty())
    data::fail(path, "is an archive without arrays", "give a file of numpy.savez()");
  return arrays;
}

std::unique_ptr<data::Array> read_npz(const std::string& path, const std::string& name) {
  const std::vector<std::string> there = arrays_in_npz(path);
  if (std::find(there.begin(), there.end(), name) == there.end()) {
    std::string names;
    for (const std::string& one : there)
      names.append(names.empty() ? "'" : ", '").append(one).append("'");
    data::fail(path, "has no array '" + name + "'; it has " + (names.empty() ? "none" : names),
               "give one of these names to --samples and --targets");
  }
  const std::string what = path + ": array '" + name + "'";
  std::vector<std::uint8_t> bytes = Archive(path).read(name + std::string(kEnding));
  const std::size_t header = std::min(bytes.size(), data::kLongestNpyHeader);
  const data::NpyArray array = data::parse_npy(
      {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header)}, bytes.size(), what);
  if (array.shape.empty()) throw data::UnsupportedArrayError(what + ": is a single number");
  data::ArrayForm form(array.type, array.shape, what);
  const std::size_t size = form.rows() * form.row_bytes();
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(array.offset));
  bytes.resize(size);
  return std::make_unique<data::MemoryArray>(std::move(form), std::move(bytes));
}

}  // namespace kolo::tools
