#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "data/csv.hpp"
#include "data/samples.hpp"
#include "kolo/data/csv.h"

namespace kolo::data {
namespace {

at::Tensor rows_of(const at::Tensor& all, c10::ArrayRef<std::size_t> indices) {
  const std::vector<std::int64_t> rows(indices.begin(), indices.end());
  return all.index_select(0, at::tensor(rows, at::kLong));
}

}  // namespace

CSVDataset::CSVDataset(const std::string& path, const CSVDatasetOptions& options) {
  CsvSamples read = read_csv(path, options.delimiter(), options.target());
  const auto rows = static_cast<std::int64_t>(read.rows);
  const auto width = static_cast<std::int64_t>(read.columns.size());
  samples_ = at::from_blob(read.values.data(), {rows, width}, at::kFloat).clone();
  if (!options.target().empty()) {
    const at::ScalarType type = read.targets_are_whole ? at::kLong : at::kFloat;
    targets_ = at::from_blob(read.targets.data(), {rows}, at::kDouble).to(type);
  }
  columns_ = std::move(read.columns);
}

torch::data::Example<> CSVDataset::get_batch(c10::ArrayRef<std::size_t> indices) {
  require_samples("CSVDataset", indices, *size());
  return {rows_of(samples_, indices),
          targets_.defined() ? rows_of(targets_, indices) : at::Tensor()};
}

std::optional<std::size_t> CSVDataset::size() const {
  return static_cast<std::size_t>(samples_.size(0));
}

}  // namespace kolo::data
