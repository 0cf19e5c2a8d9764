#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "core/scalar_type.hpp"
#include "data/data_error.hpp"
#include "data/hdf5_array.hpp"
#include "kolo/data/hdf5.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

std::string described(const Hdf5Array& array) {
  std::string text = std::string(name_of(array.type())) + " [N";
  for (std::size_t i = 1; i < array.shape().size(); ++i)
    text += ", " + std::to_string(array.shape()[i]);
  return text + "]";
}

// "/data/train.h5: dataset 'samples'"
std::string named(const std::string& path, const std::string& name) {
  return std::string(path).append(": dataset '").append(name).append("'");
}

bool same_rows(const Hdf5Array& left, const Hdf5Array& right) {
  return left.type() == right.type() && std::equal(left.shape().begin() + 1, left.shape().end(),
                                                   right.shape().begin() + 1, right.shape().end());
}

// Arrays of several files, one after the other.
class Rows {
 public:
  Rows(const std::vector<std::string>& paths, const std::string& name, std::size_t cache_bytes) {
    for (const std::string& path : paths) {
      parts_.push_back(std::make_unique<Hdf5Array>(path, name, cache_bytes));
      begins_.push_back(rows_);
      rows_ += parts_.back()->rows();
      if (same_rows(*parts_.front(), *parts_.back())) continue;
      fail(named(path, name),
           "is " + described(*parts_.back()) + ", and " + described(*parts_.front()) + " in " +
               paths.front(),
           "make a dataset of files that agree");
    }
  }

  std::size_t rows() const { return rows_; }
  std::size_t rows_of_file(std::size_t file) const { return parts_[file]->rows(); }

  at::Tensor read(c10::ArrayRef<std::size_t> indices) const {
    const Hdf5Array& first = *parts_.front();
    std::vector<std::int64_t> shape = first.shape();
    shape[0] = static_cast<std::int64_t>(indices.size());
    at::Tensor tensor = at::empty(shape, scalar_type(first.type()));
    auto* to = static_cast<std::uint8_t*>(tensor.data_ptr());
    if (parts_.size() == 1) {
      first.read(indices.vec(), to);
      return tensor;
    }
    // Each file in one call, for the rows that it has.
    std::vector<std::vector<std::size_t>> rows(parts_.size());
    std::vector<std::vector<std::size_t>> places(parts_.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), indices[i]);
      const auto file = static_cast<std::size_t>(after - begins_.begin()) - 1;
      rows[file].push_back(indices[i] - begins_[file]);
      places[file].push_back(i);
    }
    const std::size_t bytes = first.row_bytes();
    std::vector<std::uint8_t> staged;
    for (std::size_t file = 0; file < parts_.size(); ++file) {
      if (rows[file].empty()) continue;
      staged.resize(rows[file].size() * bytes);
      parts_[file]->read(rows[file], staged.data());
      for (std::size_t i = 0; i < places[file].size(); ++i)
        std::copy_n(staged.data() + i * bytes, bytes, to + places[file][i] * bytes);
    }
    return tensor;
  }

 private:
  std::vector<std::unique_ptr<Hdf5Array>> parts_;
  std::vector<std::size_t> begins_;  // the number of each part's first row
  std::size_t rows_ = 0;
};

}  // namespace

struct HDF5Dataset::State {
  Rows samples;
  std::optional<Rows> targets;
};

HDF5Dataset::HDF5Dataset(const std::string& path, HDF5DatasetOptions options)
    : HDF5Dataset(std::vector<std::string>{path}, std::move(options)) {}

HDF5Dataset::HDF5Dataset(const std::vector<std::string>& paths, HDF5DatasetOptions options) {
  if (paths.empty()) throw InvalidArgumentError("HDF5Dataset: the list of files is empty");
  auto state = std::make_shared<State>(
      State{Rows(paths, options.samples(), options.cache_bytes()), std::nullopt});
  if (!options.targets().empty()) {
    state->targets.emplace(paths, options.targets(), options.cache_bytes());
    for (std::size_t file = 0; file < paths.size(); ++file) {
      const std::size_t samples = state->samples.rows_of_file(file);
      const std::size_t targets = state->targets->rows_of_file(file);
      if (samples == targets) continue;
      fail(paths[file],
           "has " + std::to_string(samples) + " samples in '" + options.samples() + "' and " +
               std::to_string(targets) + " targets in '" + options.targets() + "'",
           "give arrays of the same length");
    }
  }
  state_ = std::move(state);
}

torch::data::Example<> HDF5Dataset::get_batch(c10::ArrayRef<std::size_t> indices) {
  for (const std::size_t index : indices) {
    if (index < state_->samples.rows()) continue;
    throw InvalidArgumentError("HDF5Dataset: there is no sample " + std::to_string(index) +
                               " among " + std::to_string(state_->samples.rows()));
  }
  return {state_->samples.read(indices),
          state_->targets ? state_->targets->read(indices) : at::Tensor()};
}

torch::data::Example<> HDF5Dataset::get_range(std::size_t first, std::size_t count) {
  if (first > state_->samples.rows() || count > state_->samples.rows() - first) {
    throw InvalidArgumentError("HDF5Dataset: there are no " + std::to_string(count) +
                               " samples from " + std::to_string(first) + " on among " +
                               std::to_string(state_->samples.rows()));
  }
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), first);
  return get_batch(indices);
}

std::optional<std::size_t> HDF5Dataset::size() const {
  return state_->samples.rows();
}

}  // namespace kolo::data
