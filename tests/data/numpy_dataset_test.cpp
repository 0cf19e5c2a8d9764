// Samples in NumPy's files.
#include "kolo/data/numpy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/data/loader.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kolo/error.h"
#include "temporary_folder.hpp"

namespace kolo::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::TemporaryFolder;

// As numpy.save() writes it, in version 1.
void write_npy(const std::string& path, const std::string& descr, const at::Tensor& array) {
  std::string shape;
  for (const std::int64_t extent : array.sizes()) shape += std::to_string(extent) + ", ";
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() % 256);
  bytes += static_cast<char>(header.size() / 256);
  std::ofstream file(path, std::ios::binary);
  file << bytes << header;
  file.write(static_cast<const char*>(array.const_data_ptr()),
             static_cast<std::streamsize>(array.nbytes()));
}

struct Files {
  Files() {
    write_npy(images, "<f4", values);
    write_npy(labels, "<i8", numbers);
  }
  const TemporaryFolder folder;
  const std::string images = folder / "images.npy";
  const std::string labels = folder / "labels.npy";
  const at::Tensor values = torch::arange(20 * 6).to(at::kFloat).view({20, 2, 3});
  const at::Tensor numbers = torch::arange(20);
};

template <class Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no DataError";
}

TEST(NumpyDataset, GivesWhatWasSaved) {
  const Files files;
  NumpyDataset dataset(files.images, files.labels);
  EXPECT_EQ(dataset.size(), 20U);
  const auto batch = dataset.get_batch(std::vector<std::size_t>{3, 3, 19, 0, 4, 5});
  const at::Tensor rows = torch::tensor({3, 3, 19, 0, 4, 5});
  EXPECT_TRUE(batch.data.equal(files.values.index_select(0, rows)));
  EXPECT_TRUE(batch.target.equal(rows));
  EXPECT_FALSE(NumpyDataset(files.images).get_batch(std::vector<std::size_t>{1}).target.defined());
  EXPECT_THROW(dataset.get_batch(std::vector<std::size_t>{20}), InvalidArgumentError);
}

TEST(NumpyDataset, LoadersTakeIt) {
  const Files files;
  for (const int workers : {0, 3}) {
    DataLoader loader(NumpyDataset(files.images, files.labels), DistributedSampler(20, {}),
                      DataLoaderOptions().batch_size(3).workers(workers));
    std::int64_t sum = 0;
    for (const Batch& batch : loader) {
      EXPECT_TRUE(batch.data.equal(files.values.index_select(0, batch.target)));
      sum += batch.target.sum().item<std::int64_t>();
    }
    EXPECT_EQ(sum, 190);
  }
}

TEST(NumpyDataset, WhatIsWrongIsSaid) {
  const Files files;
  EXPECT_THAT(message_of([&] { NumpyDataset(files.folder / "none.npy"); }),
              AllOf(HasSubstr("none.npy"), HasSubstr("cannot be opened")));
  write_npy(files.folder / "few.npy", "<i8", torch::arange(19));
  EXPECT_THAT(message_of([&] { NumpyDataset(files.images, files.folder / "few.npy"); }),
              AllOf(HasSubstr("few.npy"), HasSubstr("19 targets"), HasSubstr("20 samples")));
  write_npy(files.folder / "number.npy", "<i8", torch::tensor(1));
  EXPECT_THAT(message_of([&] { NumpyDataset(files.folder / "number.npy"); }),
              HasSubstr("a single number"));
  EXPECT_THAT(message_of([&] { NumpyDataset(files.folder.path()); }), HasSubstr("is a folder"));
  std::filesystem::resize_file(files.labels, 200);
  EXPECT_THAT(message_of([&] { NumpyDataset(files.images, files.labels); }),
              AllOf(HasSubstr("labels.npy"), HasSubstr("ends before its array does")));
}

TEST(NumpyDataset, AFileThatChangesIsAnError) {
  const Files files;
  NumpyDataset dataset(files.images);
  dataset.get_batch(std::vector<std::size_t>{1});
  std::filesystem::last_write_time(
      files.images, std::filesystem::last_write_time(files.images) + std::chrono::seconds(5));
  EXPECT_THAT(message_of([&] { dataset.get_batch(std::vector<std::size_t>{1}); }),
              AllOf(HasSubstr("images.npy"), HasSubstr("was changed")));
  NumpyDataset other(files.images);
  std::filesystem::resize_file(files.images, 200);  // shorter than what is read
  EXPECT_THAT(message_of([&] { other.get_batch(std::vector<std::size_t>{1}); }),
              AllOf(HasSubstr("images.npy"), HasSubstr("was changed")));
}

}  // namespace
}  // namespace kolo::data
