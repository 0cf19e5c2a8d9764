#include "kolo/data/mnist.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "kolo/data/idx.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

constexpr std::int64_t kSide = 28;  // pixels
constexpr std::uint8_t kClasses = 10;
constexpr auto kFetch =
    "run scripts/setup for 5,000 of MNIST's digits or scripts/fetch-mnist for all 70,000, and give "
    "the folder that it names";

// Whether a path exists. If it cannot be inspected (no permission, say), returns true: opening it
// reports the reason.
bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found;
}

std::string find(const std::string& folder, const std::string& name) {
  const std::filesystem::path plain = std::filesystem::path(folder) / name;
  const std::filesystem::path packed = plain.string() + ".gz";
  for (const auto& path : {plain, packed}) {
    if (is_there(path)) return path.string();
  }
  const char* reason = is_there(folder) ? "no such file, nor with .gz at the end; "
                                        : "no such file, not even its folder; ";
  throw DataError(plain.string() + ": " + reason + kFetch);
}

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw DataError(path + ": " + reason +
                  "; it is not a file of MNIST, or it is damaged: " + kFetch);
}

std::string describe(const IdxArray& array) {
  std::string text = std::string(name_of(array.dtype)) + " [";
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(array.shape[i]);
  }
  return text + "]";
}

IdxArray read_images(const std::string& path) {
  IdxArray array = read_idx(path);
  const bool right = array.dtype == IdxType::kUint8 && array.shape.size() == 3 &&
                     array.shape[0] > 0 && array.shape[1] == kSide && array.shape[2] == kSide;
  if (!right) fail(path, "holds " + describe(array) + " instead of images, uint8 [N, 28, 28]");
  return array;
}

IdxArray read_labels(const std::string& path) {
  IdxArray array = read_idx(path);
  if (array.dtype != IdxType::kUint8 || array.shape.size() != 1) {
    fail(path, "holds " + describe(array) + " instead of labels, uint8 [N]");
  }
  for (std::size_t i = 0; i < array.bytes.size(); ++i) {
    if (array.bytes[i] < kClasses) continue;
    fail(path, "label " + std::to_string(i) + " is " + std::to_string(array.bytes[i]) +
                   ", not a digit from 0 to 9");
  }
  return array;
}

// Returns a copy in the given dtype; it does not refer to the array's bytes.
torch::Tensor to_tensor(IdxArray& array, at::IntArrayRef shape, at::ScalarType dtype) {
  return at::from_blob(array.bytes.data(), shape, at::kByte).to(dtype);
}

}  // namespace

MNIST::MNIST(const std::string& folder, Mode mode) : mode_(mode) {
  const std::string prefix = is_train() ? "train" : "t10k";
  const std::string images_path = find(folder, prefix + "-images-idx3-ubyte");
  const std::string labels_path = find(folder, prefix + "-labels-idx1-ubyte");
  IdxArray images = read_images(images_path);
  IdxArray labels = read_labels(labels_path);
  const std::int64_t count = images.shape[0];
  if (labels.shape[0] != count) {
    fail(labels_path, "holds " + std::to_string(labels.shape[0]) + " labels for the " +
                          std::to_string(count) + " images of " + images_path);
  }
  constexpr float kWhite = 255.0F;
  images_ = to_tensor(images, {count, 1, kSide, kSide}, at::kFloat).div_(kWhite);
  labels_ = to_tensor(labels, {count}, at::kLong);
}

std::int64_t MNIST::row(std::size_t index) const {
  if (index < *size()) return static_cast<std::int64_t>(index);
  throw InvalidArgumentError("MNIST: index " + std::to_string(index) + " of " +
                             std::to_string(*size()) + " images");
}

torch::data::Example<> MNIST::get(std::size_t index) {
  return {images_[row(index)], labels_[row(index)]};
}

torch::data::Example<> MNIST::get_stacked_batch(c10::ArrayRef<std::size_t> indices) const {
  const at::Tensor rows = at::empty({static_cast<std::int64_t>(indices.size())}, at::kLong);
  std::transform(indices.begin(), indices.end(), rows.mutable_data_ptr<std::int64_t>(),
                 [this](std::size_t index) { return row(index); });
  return {images_.index_select(0, rows), labels_.index_select(0, rows)};
}

std::optional<std::size_t> MNIST::size() const {
  return static_cast<std::size_t>(images_.size(0));
}

}  // namespace kolo::data
