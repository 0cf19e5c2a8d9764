// Datasets in HDF5 files: every layout gives the values that were written, and what cannot be read
// is an error that says why.
#include "kolo/data/hdf5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <torch/data/dataloader.h>
#include <torch/data/samplers/sequential.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "data/hdf5_files.hpp"
#include "kolo/data/dataset.h"
#include "kolo/error.h"
#include "temporary_folder.hpp"

namespace kolo::data {
namespace {

using test::Extents;
using test::Storage;
using test::write_array;
using test::write_values;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::TemporaryFolder;

HDF5DatasetOptions samples_alone(const std::string& name = "samples") {
  return HDF5DatasetOptions().samples(name).targets("");
}

// What write_values() wrote, by indices.
at::Tensor written(const Extents& shape, const std::vector<std::size_t>& indices) {
  const std::vector<std::int32_t> values = test::values_of(shape);
  const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  const std::vector<std::int64_t> rows(indices.begin(), indices.end());
  return torch::tensor(values, at::kInt).reshape(sizes).index_select(0, torch::tensor(rows));
}

std::vector<std::size_t> some_indices(std::size_t size, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> indices(count);
  for (std::size_t& index : indices) index = random() % size;
  return indices;
}

void expect_values(const std::string& path, const Extents& shape, std::size_t cache_bytes) {
  SCOPED_TRACE("cache_bytes " + std::to_string(cache_bytes));
  HDF5Dataset dataset(path, samples_alone().cache_bytes(cache_bytes));
  ASSERT_EQ(dataset.size(), shape[0]);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto indices = some_indices(shape[0], 1 + seed * 3, seed);
    const at::Tensor got = dataset.get_batch(indices).data;
    ASSERT_EQ(got.scalar_type(), at::kInt);
    ASSERT_TRUE(at::equal(got, written(shape, indices))) << "seed " << seed;
  }
  std::vector<std::size_t> all(shape[0]);
  std::iota(all.begin(), all.end(), std::size_t{0});
  ASSERT_TRUE(at::equal(dataset.get_range(0, shape[0]).data, written(shape, all)));
}

// With nothing in memory, where each row is read as the layout has it; with some chunks there; and
// with all of the array.
void expect_values(const std::string& path, const Extents& shape) {
  for (const std::size_t cache_bytes : {0, 300, 1 << 20}) expect_values(path, shape, cache_bytes);
}

template <class Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no DataError";
}

const std::function<void(hid_t)> kGzip = [](hid_t p) { test::good(H5Pset_deflate(p, 4)); };
const std::function<void(hid_t)> kShuffledGzip = [](hid_t p) {
  test::good(H5Pset_shuffle(p));
  test::good(H5Pset_deflate(p, 4));
};
const std::function<void(hid_t)> kAllFilters = [](hid_t p) {
  test::good(H5Pset_shuffle(p));
  test::good(H5Pset_deflate(p, 4));
  test::good(H5Pset_fletcher32(p));
};

struct Case {
  const char* name;
  Extents shape;
  Storage storage;
  hsize_t user_block = 0;
};

class Hdf5Layout : public ::testing::TestWithParam<Case> {};

TEST_P(Hdf5Layout, GivesWhatWasWritten) {
  const TemporaryFolder folder;
  write_values(folder / "a.h5", "samples", GetParam().shape, GetParam().storage,
               GetParam().user_block);
  expect_values(folder / "a.h5", GetParam().shape);
}

INSTANTIATE_TEST_SUITE_P(
    All, Hdf5Layout,
    ::testing::Values(
        Case{"Contiguous", {57, 3, 5}, {}}, Case{"ContiguousNumbers", {57}, {}},
        Case{"ContiguousAfterUserBlock", {57, 3}, {}, 4096},
        Case{"Compact",
             {10, 3},
             {H5T_NATIVE_INT32, {}, [](hid_t p) { test::good(H5Pset_layout(p, H5D_COMPACT)); }}},
        Case{"BigEndian", {57, 3}, {H5T_STD_I32BE}},
        Case{"BigEndianInChunks", {57, 3}, {H5T_STD_I32BE, {4, 2}, kGzip}},
        Case{"Chunks", {57, 4, 6}, {H5T_NATIVE_INT32, {8, 4, 6}}},
        Case{"ChunkOfOneSample", {57, 4, 6}, {H5T_NATIVE_INT32, {1, 4, 6}, kGzip}},
        Case{"ChunksThatSplitSamples", {57, 5, 7}, {H5T_NATIVE_INT32, {8, 2, 3}, kShuffledGzip}},
        Case{"ChunksThatSplitTheMiddle", {57, 5, 7, 2}, {H5T_NATIVE_INT32, {3, 5, 4, 2}, kGzip}},
        Case{"ChunksThatSplitTheFirst", {57, 5, 7, 2}, {H5T_NATIVE_INT32, {3, 2, 7, 2}, kGzip}},
        Case{"ChunksOfNumbers", {57}, {H5T_NATIVE_INT32, {10}, kShuffledGzip}},
        Case{"ChunkLargerThanAll", {5, 3}, {H5T_NATIVE_INT32, {5, 3}, kAllFilters}},
        Case{"Gzip", {57, 5}, {H5T_NATIVE_INT32, {7, 5}, kGzip}},
        Case{"ShuffleAndGzip", {57, 5}, {H5T_NATIVE_INT32, {7, 5}, kShuffledGzip}},
        Case{"ShuffleGzipAndFletcher32", {57, 5}, {H5T_NATIVE_INT32, {7, 5}, kAllFilters}},
        Case{"Fletcher32",
             {57, 5},
             {H5T_NATIVE_INT32, {7, 5}, [](hid_t p) { test::good(H5Pset_fletcher32(p)); }}},
        Case{"ManyChunks", {5000, 2}, {H5T_NATIVE_INT32, {1, 2}}},
        Case{"ChunksAfterUserBlock", {57, 5}, {H5T_NATIVE_INT32, {7, 5}, kAllFilters}, 512},
        Case{"FilterOfTheLibraryAlone",
             {57, 5},
             {H5T_NATIVE_INT32,
              {7, 5},
              [](hid_t p) {
                test::good(H5Pset_scaleoffset(p, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT));
              }}}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

// The value 9 is that of what was never written, as the file says.
TEST(Hdf5Dataset, RowsThatWereNeverWrittenAreFillValues) {
  const TemporaryFolder folder;
  const auto fill = [](hid_t p) {
    const std::int32_t nine = 9;
    test::good(H5Pset_fill_value(p, H5T_NATIVE_INT32, &nine));
  };
  for (const Extents& chunk : {Extents{}, Extents{4, 3}}) {
    const std::string path = folder / (chunk.empty() ? "a.h5" : "b.h5");
    write_values(path, "some", {20, 3}, {H5T_NATIVE_INT32, chunk, fill, 8});
    write_values(path, "none", {20, 3}, {H5T_NATIVE_INT32, chunk, fill, 0});
    const at::Tensor some = HDF5Dataset(path, samples_alone("some")).get_range(0, 20).data;
    EXPECT_TRUE(at::equal(some.narrow(0, 0, 8), written({20, 3}, {0, 1, 2, 3, 4, 5, 6, 7})));
    EXPECT_TRUE(some.narrow(0, 8, 12).eq(9).all().item<bool>());
    const at::Tensor none = HDF5Dataset(path, samples_alone("none")).get_range(0, 20).data;
    EXPECT_TRUE(none.eq(9).all().item<bool>());
  }
}

TEST(Hdf5Dataset, TypesAreThoseOfTheFile) {
  const TemporaryFolder folder;
  const std::vector<std::int32_t> values = {0, 1, 2, 3, 4, 5, 6, 7};
  const hid_t half = test::good(H5Tcopy(H5T_IEEE_F32LE));
  test::good(H5Tset_fields(half, 15, 10, 5, 0, 10));
  test::good(H5Tset_size(half, 2));
  test::good(H5Tset_ebias(half, 15));
  const std::vector<std::pair<hid_t, at::ScalarType>> types = {
      {H5T_STD_U8LE, at::kByte},    {H5T_STD_I8LE, at::kChar},     {H5T_STD_I16LE, at::kShort},
      {H5T_STD_I32BE, at::kInt},    {H5T_STD_I64LE, at::kLong},    {H5T_STD_U16BE, at::kUInt16},
      {H5T_IEEE_F32LE, at::kFloat}, {H5T_IEEE_F64LE, at::kDouble}, {half, at::kHalf},
      {H5T_IEEE_F64BE, at::kDouble}};
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string name = "array" + std::to_string(i);
    write_array(folder / "a.h5", name, {4, 2}, H5T_NATIVE_INT32, values.data(), {types[i].first});
    const at::Tensor got = HDF5Dataset(folder / "a.h5", samples_alone(name)).get_range(0, 4).data;
    EXPECT_EQ(got.scalar_type(), types[i].second) << name;
    EXPECT_TRUE(at::equal(got.to(at::kInt).flatten(), torch::tensor(values, at::kInt))) << name;
  }
  H5Tclose(half);
}

TEST(Hdf5Dataset, SamplesHaveTheirTargetsAndLoadersTakeIt) {
  const TemporaryFolder folder;
  const Extents chunk = {4, 3};
  write_values(folder / "a.h5", "samples", {21, 3}, {H5T_NATIVE_INT32, chunk, kGzip});
  write_values(folder / "a.h5", "targets", {21});
  HDF5Dataset dataset(folder / "a.h5");
  const auto batch = dataset.get_batch(std::vector<std::size_t>{20, 0, 20});
  EXPECT_TRUE(at::equal(batch.data, written({21, 3}, {20, 0, 20})));
  EXPECT_TRUE(at::equal(batch.target, written({21}, {20, 0, 20})));
  // kolo's own and LibTorch's.
  EXPECT_TRUE(at::equal(Dataset(dataset).get_batch(std::vector<std::size_t>{3}).target,
                        written({21}, {3})));
  auto loader =
      torch::data::make_data_loader(dataset, torch::data::samplers::SequentialSampler(21),
                                    torch::data::DataLoaderOptions().batch_size(5).workers(2));
  std::vector<at::Tensor> all;
  for (const auto& one : *loader) all.push_back(one.data);
  std::vector<std::size_t> indices(21);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  EXPECT_TRUE(at::equal(torch::cat(all), written({21, 3}, indices)));
}

TEST(Hdf5Dataset, FilesFollowEachOther) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  std::vector<at::Tensor> parts;
  for (const hsize_t rows : {7, 1, 12}) {
    paths.push_back(folder / ("part" + std::to_string(paths.size()) + ".h5"));
    write_values(paths.back(), "samples", {rows, 3}, {H5T_NATIVE_INT32, {1, 3}, kGzip});
    parts.push_back(HDF5Dataset(paths.back(), samples_alone()).get_range(0, rows).data);
  }
  HDF5Dataset dataset(paths, samples_alone());
  const at::Tensor all = torch::cat(parts);
  ASSERT_EQ(dataset.size(), 20U);
  EXPECT_TRUE(at::equal(dataset.get_range(0, 20).data, all));
  EXPECT_TRUE(at::equal(dataset.get_batch(std::vector<std::size_t>{19, 7, 0, 8, 6}).data,
                        all.index_select(0, torch::tensor({19, 7, 0, 8, 6}))));
  EXPECT_THROW(dataset.get_batch(std::vector<std::size_t>{20}), InvalidArgumentError);
  EXPECT_THROW(dataset.get_range(15, 6), InvalidArgumentError);

  write_values(folder / "other.h5", "samples", {3, 4});
  paths.push_back(folder / "other.h5");
  EXPECT_THAT(message_of([&] { HDF5Dataset(paths, samples_alone()); }),
              AllOf(HasSubstr("other.h5: dataset 'samples': is int32 [N, 4], and int32 [N, 3] in "),
                    HasSubstr("part0.h5")));
  EXPECT_THROW(HDF5Dataset(std::vector<std::string>{}), InvalidArgumentError);
}

void write_virtual(const std::string& path, const std::string& source) {
  const hid_t file = test::good(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
  const Extents shape = {12, 3};
  const hid_t space = test::good(H5Screate_simple(2, shape.data(), nullptr));
  const hid_t properties = test::good(H5Pcreate(H5P_DATASET_CREATE));
  test::good(H5Pset_virtual(properties, space, source.c_str(), "samples", space));
  const hid_t dataset = test::good(
      H5Dcreate2(file, "samples", H5T_NATIVE_INT32, space, H5P_DEFAULT, properties, H5P_DEFAULT));
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
  H5Fclose(file);
}

// HDF5 itself gives fill values for a source that is missing.
TEST(Hdf5Dataset, VirtualDatasetsNeedTheirSources) {
  const TemporaryFolder folder;
  write_virtual(folder / "virtual.h5", "source.h5");
  EXPECT_THAT(message_of([&] { HDF5Dataset(folder / "virtual.h5", samples_alone()); }),
              HasSubstr("its source source.h5 is missing"));
  write_values(folder / "source.h5", "samples", {12, 3});
  expect_values(folder / "virtual.h5", {12, 3});
}

TEST(Hdf5Dataset, WhatIsNoDatasetIsRefused) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& file, const std::string& name = "samples") {
    return message_of([&] { HDF5Dataset(folder / file, samples_alone(name)); });
  };
  EXPECT_THAT(message("missing.h5"), AllOf(HasSubstr("missing.h5: cannot be opened"),
                                           HasSubstr("No such file or directory")));
  EXPECT_THAT(message("."), HasSubstr("is a folder"));
  std::ofstream(folder / "empty.h5").flush();
  EXPECT_THAT(message("empty.h5"), HasSubstr("empty.h5: is not an HDF5 file, or is damaged"));
  std::ofstream(folder / "text.h5") << std::string(5000, 'x');
  EXPECT_THAT(message("text.h5"), HasSubstr("is not an HDF5 file, or is damaged"));

  write_values(folder / "a.h5", "images/train", {20, 3});
  write_values(folder / "a.h5", "labels", {19});
  const double pi = 3.14;
  write_array(folder / "a.h5", "pi", {}, H5T_NATIVE_DOUBLE, &pi, {H5T_NATIVE_DOUBLE});
  const hid_t text = test::good(H5Tcopy(H5T_C_S1));
  test::good(H5Tset_size(text, 8));
  write_array(folder / "a.h5", "names", {4}, text, nullptr, {text});
  H5Tclose(text);
  EXPECT_THAT(message("a.h5"),
              HasSubstr("a.h5: has no dataset 'samples'; the file has 'images/train', 'labels', "
                        "'names', 'pi'; give one of these names"));
  EXPECT_THAT(message("a.h5", "images"), HasSubstr("has no dataset 'images'"));
  EXPECT_THAT(message("a.h5", "pi"), HasSubstr("dataset 'pi': is a single number"));
  EXPECT_THAT(message("a.h5", "names"), HasSubstr("does not hold numbers"));
  EXPECT_THAT(message_of([&] {
                HDF5Dataset(folder / "a.h5",
                            HDF5DatasetOptions().samples("images/train").targets("labels"));
              }),
              HasSubstr("has 20 samples in 'images/train' and 19 targets in 'labels'"));

  std::filesystem::copy_file(folder / "a.h5", folder / "short.h5");
  std::filesystem::resize_file(folder / "short.h5",
                               std::filesystem::file_size(folder / "short.h5") - 40);
  EXPECT_THAT(message("short.h5", "labels"), HasSubstr("is not an HDF5 file, or is damaged"));
}

constexpr H5Z_filter_t kOwnFilter = 400;  // of those for tests

TEST(Hdf5Dataset, FilterThatIsNotInstalledIsNamed) {
  const TemporaryFolder folder;
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS,
                               kOwnFilter,
                               1,
                               1,
                               "unusual",
                               nullptr,
                               nullptr,
                               [](unsigned, std::size_t, const unsigned*, std::size_t bytes,
                                  std::size_t*, void**) { return bytes; }};
  test::good(H5Zregister(&filter));
  write_values(folder / "a.h5", "samples", {20, 3},
               {H5T_NATIVE_INT32, {4, 3}, [](hid_t p) {
                  test::good(H5Pset_filter(p, kOwnFilter, 0, 0, nullptr));
                }});
  expect_values(folder / "a.h5", {20, 3});
  test::good(H5Zunregister(kOwnFilter));
  EXPECT_THAT(message_of([&] { HDF5Dataset(folder / "a.h5", samples_alone()); }),
              AllOf(HasSubstr("the filter 400 (unusual), which this HDF5 does not have"),
                    HasSubstr("HDF5_PLUGIN_PATH")));
}

TEST(Hdf5Dataset, FileThatChangesIsAnError) {
  const TemporaryFolder folder;
  for (const Extents& chunk : {Extents{}, Extents{4, 3}}) {
    const std::string path = folder / (chunk.empty() ? "a.h5" : "b.h5");
    write_values(path, "samples", {2000, 3}, {H5T_NATIVE_INT32, chunk});
    HDF5Dataset dataset(path, samples_alone().cache_bytes(0));
    dataset.get_range(0, 2);
    std::filesystem::resize_file(path, 6000);
    EXPECT_THAT(message_of([&] { dataset.get_range(0, 2000); }),
                HasSubstr(path + ": was changed or removed while it was read"));
  }
}

// Every byte of a chunk's data: the checksum, the compression or the size notices it.
TEST(Hdf5Dataset, DamagedChunksAreNoticed) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  write_values(path, "samples", {16, 8}, {H5T_NATIVE_INT32, {16, 8}, kAllFilters});
  const hid_t file = test::good(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const hid_t opened = test::good(H5Dopen2(file, "samples", H5P_DEFAULT));
  const Extents origin = {0, 0};
  unsigned mask = 0;
  haddr_t address = 0;
  hsize_t size = 0;
  test::good(H5Dget_chunk_info_by_coord(opened, origin.data(), &mask, &address, &size));
  H5Dclose(opened);
  H5Fclose(file);
  ASSERT_GT(size, 100U);
  for (hsize_t i = 0; i < size; ++i) {
    std::fstream bytes(path, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekg(static_cast<std::streamoff>(address + i));
    const int byte = bytes.get();
    const auto put = [&](int value) {
      bytes.seekp(static_cast<std::streamoff>(address + i));
      bytes.put(static_cast<char>(value)).flush();
    };
    put(byte ^ 0x10);
    ASSERT_THAT(message_of([&] { HDF5Dataset(path, samples_alone()).get_range(0, 16); }),
                HasSubstr("dataset 'samples': has a chunk that cannot be read"))
        << "byte " << i;
    put(byte);
  }
  expect_values(path, {16, 8});
}

// Reads 256 MiB with 32 MiB more than the process has: 16 MiB of chunks are kept, and a batch has
// 4 MiB. Blocks are given back when they are freed, so that the limit counts what is in use and not
// what malloc() keeps.
void read_in_little_memory(const std::string& path) {
  at::set_num_threads(1);
  if (::mallopt(M_MMAP_THRESHOLD, 1 << 16) != 1) std::_Exit(2);
  HDF5Dataset dataset(path, samples_alone().cache_bytes(std::size_t{16} << 20U));
  std::ifstream status("/proc/self/status");
  std::string line;
  rlim_t used = 0;
  while (std::getline(status, line)) {
    if (line.rfind("VmData:", 0) == 0) used = std::stoull(line.substr(7)) << 10U;
  }
  const rlimit limit = {used + (rlim_t{32} << 20U), RLIM_INFINITY};
  if (used == 0 || ::setrlimit(RLIMIT_DATA, &limit) != 0) std::_Exit(2);
  bool is_right = true;
  for (std::size_t first = 0; first < *dataset.size(); first += 16)
    is_right = is_right && dataset.get_range(first, 16).data.eq(3).all().item<bool>();
  std::_Exit(is_right ? 0 : 3);
}

TEST(Hdf5Dataset, LargerThanMemoryIsReadInLittle) {
  const TemporaryFolder folder;
  const Extents shape = {1024, 256, 1024};
  const std::vector<std::uint8_t> values(std::size_t{1} << 28U, 3);
  for (const bool compressed : {false, true}) {
    const std::string path = folder / (compressed ? "gzip.h5" : "raw.h5");
    Storage storage = {H5T_STD_U8LE};
    if (compressed) {
      storage.chunk = {4, 256, 1024};
      storage.properties = [](hid_t p) { test::good(H5Pset_deflate(p, 1)); };
    }
    write_array(path, "samples", shape, H5T_NATIVE_UINT8, values.data(), storage);
    EXPECT_EXIT(read_in_little_memory(path), ::testing::ExitedWithCode(0), "") << path;
    std::filesystem::remove(path);
  }
}

TEST(Hdf5Dataset, ThreadsReadAtOnce) {
  const TemporaryFolder folder;
  const Extents shape = {500, 10};
  write_values(folder / "a.h5", "samples", shape, {H5T_NATIVE_INT32, {8, 10}, kAllFilters});
  write_values(folder / "a.h5", "targets", shape);
  HDF5Dataset dataset(folder / "a.h5", HDF5DatasetOptions().cache_bytes(2000));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 200; ++i) {
        const auto indices = some_indices(shape[0], 16, 1000 * t + i);
        const auto batch = dataset.get_batch(indices);
        const at::Tensor right = written(shape, indices);
        if (!at::equal(batch.data, right) || !at::equal(batch.target, right)) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

}  // namespace
}  // namespace kolo::data
