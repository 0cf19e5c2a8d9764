#include "checkpoint/metadata.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>

#include "checkpoint/header.hpp"
#include "checkpoint/pieces.hpp"
#include "hdf5/library.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

using hdf5::checked;
using hdf5::Id;
using testing::HasSubstr;

Table table_of(int tensors) {
  Table table;
  for (int i = 0; i < tensors; ++i)
    table.tensors.push_back({"model/layer." + std::to_string(i) + ".weight",
                             static_cast<ElementType>(i % kElementTypeCount),
                             {i % 5, 1000},
                             static_cast<Kind>(i % 4)});
  return table;
}

void expect_same(const Table& left, const Table& right) {
  ASSERT_EQ(left.tensors.size(), right.tensors.size());
  for (const TensorEntry& entry : left.tensors) {
    const TensorEntry* other = right.find(entry.name);
    ASSERT_NE(other, nullptr) << entry.name;
    EXPECT_EQ(entry.type, other->type) << entry.name;
    EXPECT_EQ(entry.shape, other->shape) << entry.name;
    EXPECT_EQ(entry.kind, other->kind) << entry.name;
    EXPECT_EQ(entry.offset, other->offset) << entry.name;
  }
  ASSERT_EQ(left.values.size(), right.values.size());
  for (const auto& [name, value] : left.values)
    EXPECT_TRUE(right.values.count(name) == 1 && same(value, right.values.at(name))) << name;
}

Table there_and_back(Table& table) {
  const Metadata metadata = make_metadata(table, count_pieces(table));
  return parse_metadata(metadata.bytes, metadata.file_size, "file");
}

TEST(Metadata, TensorsOfEveryType) {
  for (const int tensors : {0, 1, 20, 3000}) {
    Table table = table_of(tensors);
    expect_same(table, there_and_back(table));
  }
}

TEST(Metadata, ValuesOfEveryType) {
  Table table;
  table.values = {{"truth", true},
                  {"lie", false},
                  {"integer", std::numeric_limits<std::int64_t>::min()},
                  {"real", 0.1},
                  {"a/negative/zero", -0.0},
                  {"nan", std::nan("")},
                  {"infinite", std::numeric_limits<double>::infinity()},
                  {"text", std::string("gr\303\274n\n\0z", 8)},
                  {"long", std::string(kLongestText, 'x')},
                  {"empty", std::string()},
                  {"integers", std::vector<std::int64_t>{3, -1}},
                  {"none", std::vector<std::int64_t>{}},
                  {"many", std::vector<double>(kMostListed, 0.5)}};
  for (int i = 0; i < 200; ++i) table.values["group/v" + std::to_string(i)] = std::int64_t{i};
  expect_same(table, there_and_back(table));
}

TEST(Metadata, NamesOfEveryKind) {
  Table table;
  for (const std::string part : {"a/b", "100%", "%2F", ".", "..", "", "weight with spaces",
                                 "\303\274", "%", "/", "a\tb", "kolo"})
    table.tensors.push_back({join_name({"model", part}), ElementType::kUint8, {1}});
  const Table back = there_and_back(table);
  expect_same(table, back);
  EXPECT_EQ(split_name(back.tensors[0].name), (std::vector<std::string>{"model", "a/b"}));
  for (std::size_t i = 0; i < table.tensors.size(); ++i)
    EXPECT_EQ(join_name(split_name(table.tensors[i].name)), table.tensors[i].name);
}

TEST(Metadata, LieInFrontOfTheDataWhichAreAligned) {
  for (const int tensors : {1, 100, 3000}) {
    Table table = table_of(tensors);
    const Metadata metadata = make_metadata(table, count_pieces(table));
    std::uint64_t last = metadata.checksums_offset + 8 * count_pieces(table);
    for (const TensorEntry& entry : table.tensors) {
      if (entry.bytes() == 0) continue;
      EXPECT_GE(entry.offset, metadata.bytes.size());
      if (entry.bytes() >= 4096) {
        EXPECT_EQ(entry.offset % 4096, 0);
      }
      last = std::max(last, entry.offset + entry.bytes());
    }
    last = std::max<std::uint64_t>(last, metadata.bytes.size());
    EXPECT_GE(metadata.file_size, last);
    EXPECT_LE(metadata.file_size, last + 4096);
  }
}

TEST(Metadata, SameTableSameBytes) {
  Table first = table_of(300);
  Table second = table_of(300);
  const Metadata once = make_metadata(first, 7);
  const Metadata twice = make_metadata(second, 7);
  EXPECT_EQ(once.bytes, twice.bytes);
  // Knowing the size makes no difference.
  const Metadata again = make_metadata(second, 7, once.bytes.size() - kHeaderBytes);
  EXPECT_EQ(once.bytes, again.bytes);
  // Nor does a wrong one make a wrong file.
  const Metadata small = make_metadata(second, 7, 100);
  EXPECT_EQ(once.bytes, small.bytes);
  Table big = table_of(300);
  const Metadata large = make_metadata(big, 7, 1 << 20);
  expect_same(big, parse_metadata(large.bytes, large.file_size, "file"));
}

std::string refusal(Table table) {
  try {
    make_metadata(table, 0);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(Metadata, WhatCannotBeIsRefused) {
  const TensorEntry w{"m/w", ElementType::kFloat32, {2}};
  EXPECT_THAT(refusal({{w, w}, {}}), HasSubstr("'m/w' is empty or was given twice"));
  EXPECT_THAT(refusal({{w}, {{"m/w", true}}}), HasSubstr("given twice"));
  EXPECT_THAT(refusal({{w}, {{"m", true}}}), HasSubstr("'m' is a value and cannot hold 'm/w'"));
  EXPECT_THAT(refusal({{{"", ElementType::kFloat32, {2}}}, {}}), HasSubstr("is empty"));
  EXPECT_THAT(refusal({{}, {{"t", std::string(kLongestText + 1, 'x')}}}), HasSubstr("2049 bytes"));
  EXPECT_THAT(refusal({{}, {{"t", std::string("x\0", 2)}}}), HasSubstr("ends with a zero byte"));
  EXPECT_THAT(refusal({{}, {{"t", std::vector<double>(257)}}}), HasSubstr("257 elements"));
  EXPECT_THAT(refusal({{{"w", ElementType::kFloat32, std::vector<std::int64_t>(33, 1)}}, {}}),
              HasSubstr("33 dimensions"));
  const auto deep = [](int groups) {
    return join_name(std::vector<std::string>(static_cast<std::size_t>(groups) + 1, "g"));
  };
  EXPECT_EQ(refusal({{}, {{deep(kDeepestGroup), true}}}), "");
  EXPECT_THAT(refusal({{}, {{deep(kDeepestGroup + 1), true}}}), HasSubstr("has too many parts"));
  EXPECT_THAT(refusal({{{"w", ElementType::kFloat32, {1L << 40, 1L << 40}}}, {}}),
              HasSubstr("impossible shape"));
}

// As a newer minor version may write: attributes of types that this one does not have, and a group.
TEST(Metadata, WhatIsNotKnownIsLeftOut) {
  Table table{{{"m/w", ElementType::kFloat32, {2000}}}, {{"epoch", std::int64_t{3}}}};
  const Metadata metadata = make_metadata(table, count_pieces(table));
  const std::string path = testing::TempDir() + "/kolo-newer-" + std::to_string(::getpid()) + ".h5";
  std::vector<unsigned char> bytes = metadata.bytes;
  bytes.resize(metadata.file_size);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  {
    const Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "H5Fopen");
    const Id group(H5Gcreate2(file.get(), "newer", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                   "H5Gcreate2");
    const Id scalar(H5Screate(H5S_SCALAR), "H5Screate");
    const Id text(H5Tcopy(H5T_C_S1), "H5Tcopy");
    checked(H5Tset_size(text.get(), H5T_VARIABLE), "H5Tset_size");
    const Id compound(H5Tcreate(H5T_COMPOUND, 8), "H5Tcreate");
    checked(H5Tinsert(compound.get(), "x", 0, H5T_NATIVE_DOUBLE), "H5Tinsert");
    int number = 0;
    for (const hid_t type : {H5T_NATIVE_FLOAT, H5T_NATIVE_UINT16, text.get(), compound.get()}) {
      const std::string name = "attribute" + std::to_string(number++);
      const Id attribute(
          H5Acreate2(group.get(), name.c_str(), type, scalar.get(), H5P_DEFAULT, H5P_DEFAULT),
          "H5Acreate2");
    }
  }
  std::ifstream stream(path, std::ios::binary);
  bytes.assign(std::istreambuf_iterator<char>(stream), {});
  std::remove(path.c_str());
  expect_same(table, parse_metadata(bytes, bytes.size(), "file"));
}

TEST(Metadata, WhatIsWrittenIsRead) {
  Table table;
  table.values[join_name(std::vector<std::string>(kDeepestGroup + 1, "g"))] = true;
  expect_same(table, there_and_back(table));
  Table scalar{{{"mine", ElementType::kFloat32, {}, Kind::kPerRank}}, {}};
  EXPECT_THROW(there_and_back(scalar), DataError);  // no ranks have it
}

TEST(Metadata, BytesThatAreNoHdf5AreRefused) {
  EXPECT_THROW(parse_metadata(std::vector<unsigned char>(8192, 'x'), 8192, "file"), DataError);
  EXPECT_THROW(parse_metadata(std::vector<unsigned char>(4097), 4097, "file"), DataError);
}

}  // namespace
}  // namespace kolo::checkpoint
