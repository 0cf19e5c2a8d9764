// Datasets in text files that contain a table of numbers.
#pragma once

#include <torch/arg.h>
#include <torch/data/datasets/base.h>
#include <torch/data/example.h>
#include <torch/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace kolo::data {

// Options for tables of numbers.
struct CSVDatasetOptions {
  // The name of the column with the targets. Empty: the samples have no targets.
  TORCH_ARG(std::string, target) = "";
  // The character between the cells of a line; a tab for .tsv files.
  TORCH_ARG(char, delimiter) = ',';
};

// Samples in the lines of a text file (RFC 4180), plain or gzip. A first line without numbers names
// the columns; otherwise their names are "0", "1" and so on. Empty lines are skipped. Holds all
// samples in memory; copies share them.
//
//   kolo::data::CSVDataset train("train.csv", kolo::data::CSVDatasetOptions().target("price"));
//
// Several threads may call get_batch() at once. Not collective.
class CSVDataset : public torch::data::datasets::BatchDataset<CSVDataset, torch::data::Example<>> {
 public:
  // Throws DataError, which names the file, the line, the column and a remedy, if the file is
  // missing or damaged, if a cell is empty, not a number, or too large for float32, if a line has
  // more or fewer cells than the first one, or if the target is not a column (the message lists the
  // columns).
  explicit CSVDataset(const std::string& path, const CSVDatasetOptions& options = {});

  // Returns the samples of these indices in their order: data [N, columns().size()] in float32,
  // target [N] or undefined; targets are int64 if all of them are whole numbers, otherwise float32.
  // Throws InvalidArgumentError for an index that is not below size().
  torch::data::Example<> get_batch(c10::ArrayRef<std::size_t> indices) override;

  // The number of samples.
  std::optional<std::size_t> size() const override;
  // The names of the samples' columns, in the order of the file.
  const std::vector<std::string>& columns() const noexcept { return columns_; }

 private:
  std::vector<std::string> columns_;
  torch::Tensor samples_;
  torch::Tensor targets_;  // or undefined
};

}  // namespace kolo::data
