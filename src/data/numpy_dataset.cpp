#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/scalar_type.hpp"
#include "data/contiguous_rows.hpp"
#include "data/data_error.hpp"
#include "data/npy.hpp"
#include "kolo/data/numpy.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

// An array in a file, read by rows.
class Rows {
 public:
  explicit Rows(const std::string& path)
      : file_(std::make_shared<const DataFile>(path)),
        array_(array_in(*file_)),
        row_bytes_(bytes_of_row(array_)),
        reader_(file_, array_.offset, row_bytes_) {}

  std::size_t count() const { return static_cast<std::size_t>(array_.shape.front()); }

  at::Tensor read(c10::ArrayRef<std::size_t> indices) {
    std::vector<std::int64_t> shape = array_.shape;
    shape[0] = static_cast<std::int64_t>(indices.size());
    at::Tensor tensor = at::empty(shape, scalar_type(array_.type));
    if (row_bytes_ > 0) reader_.read(indices.vec(), static_cast<std::uint8_t*>(tensor.data_ptr()));
    file_->require_unchanged();
    return tensor;
  }

 private:
  static NpyArray array_in(const DataFile& file) {
    std::vector<std::uint8_t> beginning(std::min<std::uint64_t>(file.size(), kLongestNpyHeader));
    std::vector<iovec> whole{{beginning.data(), beginning.size()}};
    file.read(0, whole);
    NpyArray array = parse_npy(beginning, file.size(), file.path());
    if (array.shape.empty()) {
      fail(file.path(), "holds a single number",
           "give an array whose dimension 0 counts the samples");
    }
    return array;
  }
  static std::size_t bytes_of_row(const NpyArray& array) {
    std::size_t bytes = size_of(array.type);
    for (std::size_t i = 1; i < array.shape.size(); ++i)
      bytes *= static_cast<std::size_t>(array.shape[i]);
    return bytes;
  }

  const std::shared_ptr<const DataFile> file_;
  const NpyArray array_;
  const std::size_t row_bytes_;
  ContiguousRows reader_;
};

}  // namespace

struct NumpyDataset::State {
  std::unique_ptr<Rows> samples;
  std::unique_ptr<Rows> targets;  // or null
};

NumpyDataset::NumpyDataset(const std::string& samples, const std::string& targets) {
  auto state = std::make_shared<State>();
  state->samples = std::make_unique<Rows>(samples);
  if (!targets.empty()) {
    state->targets = std::make_unique<Rows>(targets);
    if (state->targets->count() != state->samples->count()) {
      fail(targets,
           "has " + std::to_string(state->targets->count()) + " targets, and " + samples + " has " +
               std::to_string(state->samples->count()) + " samples",
           "give arrays of the same length");
    }
  }
  state_ = std::move(state);
}

torch::data::Example<> NumpyDataset::get_batch(c10::ArrayRef<std::size_t> indices) {
  for (const std::size_t index : indices) {
    if (index < state_->samples->count()) continue;
    throw InvalidArgumentError("NumpyDataset: there is no sample " + std::to_string(index) +
                               " among " + std::to_string(state_->samples->count()));
  }
  return {state_->samples->read(indices),
          state_->targets ? state_->targets->read(indices) : at::Tensor()};
}

std::optional<std::size_t> NumpyDataset::size() const {
  return state_->samples->count();
}

}  // namespace kolo::data
