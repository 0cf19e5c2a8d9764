#include <memory>
#include <utility>

#include "data/data_error.hpp"
#include "data/npy_file.hpp"
#include "data/samples.hpp"
#include "kolo/data/numpy.h"

namespace kolo::data {

struct NumpyDataset::State {
  std::unique_ptr<NpyFile> samples;
  std::unique_ptr<NpyFile> targets;  // or null

  std::size_t size() const { return samples->form().rows(); }
};

NumpyDataset::NumpyDataset(const std::string& samples, const std::string& targets) {
  auto state = std::make_shared<State>();
  state->samples = std::make_unique<NpyFile>(samples);
  if (!targets.empty()) {
    state->targets = std::make_unique<NpyFile>(targets);
    if (state->targets->form().rows() != state->size()) {
      fail(targets,
           "has " + std::to_string(state->targets->form().rows()) + " targets, and " + samples +
               " has " + std::to_string(state->size()) + " samples",
           "give arrays of the same length");
    }
  }
  state_ = std::move(state);
}

torch::data::Example<> NumpyDataset::get_batch(c10::ArrayRef<std::size_t> indices) {
  require_samples("NumpyDataset", indices, state_->size());
  return {read_rows(*state_->samples, indices),
          state_->targets ? read_rows(*state_->targets, indices) : at::Tensor()};
}

std::optional<std::size_t> NumpyDataset::size() const {
  return state_->size();
}

}  // namespace kolo::data
