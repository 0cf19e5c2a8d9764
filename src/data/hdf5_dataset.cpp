#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "data/data_error.hpp"
#include "data/hdf5_array.hpp"
#include "data/samples.hpp"
#include "kolo/data/hdf5.h"
#include "kolo/error.h"

namespace kolo::data {
namespace {

std::string described(const ArrayForm& form) {
  std::string text = std::string(name_of(form.type())) + " [N";
  for (std::size_t i = 1; i < form.shape().size(); ++i)
    text += ", " + std::to_string(form.shape()[i]);
  return text + "]";
}

// Returns "/data/train.h5: dataset 'samples'".
std::string named(const std::string& path, const std::string& name) {
  return std::string(path).append(": dataset '").append(name).append("'");
}

bool same_rows(const ArrayForm& left, const ArrayForm& right) {
  return left.type() == right.type() && std::equal(left.shape().begin() + 1, left.shape().end(),
                                                   right.shape().begin() + 1, right.shape().end());
}

// The arrays of several files, one after the other.
class Rows : public Array {
 public:
  Rows(const std::vector<std::string>& paths, const std::string& name, std::size_t cache_bytes) {
    std::size_t rows = 0;
    for (const std::string& path : paths) {
      parts_.push_back(std::make_unique<Hdf5Array>(path, name, cache_bytes));
      begins_.push_back(rows);
      const ArrayForm& first = parts_.front()->form();
      const ArrayForm& last = parts_.back()->form();
      rows += last.rows();
      if (same_rows(first, last)) continue;
      fail(named(path, name),
           "is " + described(last) + ", and " + described(first) + " in " + paths.front(),
           "make a dataset of files that agree");
    }
    std::vector<std::int64_t> shape = parts_.front()->form().shape();
    shape[0] = static_cast<std::int64_t>(rows);
    form_ = ArrayForm(parts_.front()->form().type(), shape, named(paths.front(), name));
  }

  const ArrayForm& form() const override { return form_; }
  std::size_t rows_of_file(std::size_t file) const { return parts_[file]->form().rows(); }

  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) const override {
    if (parts_.size() == 1) return parts_.front()->read(rows, to);
    // Reads each file once, for all rows that it has.
    std::vector<std::vector<std::size_t>> own(parts_.size());
    std::vector<std::vector<std::size_t>> places(parts_.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), rows[i]);
      const auto file = static_cast<std::size_t>(after - begins_.begin()) - 1;
      own[file].push_back(rows[i] - begins_[file]);
      places[file].push_back(i);
    }
    const std::size_t bytes = form_.row_bytes();
    std::vector<std::uint8_t> staged;
    for (std::size_t file = 0; file < parts_.size(); ++file) {
      if (own[file].empty()) continue;
      staged.resize(own[file].size() * bytes);
      parts_[file]->read(own[file], staged.data());
      for (std::size_t i = 0; i < places[file].size(); ++i)
        std::copy_n(staged.data() + i * bytes, bytes, to + places[file][i] * bytes);
    }
  }

 private:
  std::vector<std::unique_ptr<Hdf5Array>> parts_;
  std::vector<std::size_t> begins_;  // the number of each part's first row
  ArrayForm form_;
};

}  // namespace

struct HDF5Dataset::State {
  State(const std::vector<std::string>& paths, const HDF5DatasetOptions& options)
      : samples(paths, options.samples(), options.cache_bytes()) {}

  const Rows samples;
  std::optional<const Rows> targets;
};

HDF5Dataset::HDF5Dataset(const std::string& path, HDF5DatasetOptions options)
    : HDF5Dataset(std::vector<std::string>{path}, std::move(options)) {}

HDF5Dataset::HDF5Dataset(const std::vector<std::string>& paths, HDF5DatasetOptions options) {
  if (paths.empty()) throw InvalidArgumentError("HDF5Dataset: the list of files is empty");
  auto state = std::make_shared<State>(paths, options);
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
  require_samples("HDF5Dataset", indices, *size());
  return {read_rows(state_->samples, indices),
          state_->targets ? read_rows(*state_->targets, indices) : at::Tensor()};
}

torch::data::Example<> HDF5Dataset::get_range(std::size_t first, std::size_t count) {
  const std::size_t all = *size();
  if (first > all || count > all - first) {
    throw InvalidArgumentError("HDF5Dataset: " + std::to_string(count) + " samples from number " +
                               std::to_string(first) + " on were requested, but there are " +
                               std::to_string(all));
  }
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), first);
  return get_batch(indices);
}

std::optional<std::size_t> HDF5Dataset::size() const {
  return state_->samples.form().rows();
}

}  // namespace kolo::data
