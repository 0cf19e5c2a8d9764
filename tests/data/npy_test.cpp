// Headers of NumPy's files, as NumPy 2.3 writes them and as nobody should.
#include "data/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kolo/error.h"

namespace kolo::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Bytes = std::vector<std::uint8_t>;

Bytes file_of(const std::string& dictionary, std::size_t data_bytes, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += static_cast<char>(dictionary.size() >> (8 * static_cast<unsigned>(i)));
  bytes += dictionary + std::string(data_bytes, 'x');
  return {bytes.begin(), bytes.end()};
}

NpyArray parsed(const Bytes& bytes) {
  return parse_npy(bytes, bytes.size(), "a.npy");
}

std::string error_of(const Bytes& bytes) {
  try {
    parsed(bytes);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no DataError";
}

std::string dictionary(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }  \n";
}

TEST(Npy, WhatNumPyWrites) {
  const std::string matrix = dictionary("<f4", "(3, 2)");
  for (const int version : {1, 2, 3}) {
    const NpyArray array = parsed(file_of(matrix, 24, version));
    EXPECT_EQ(array.type, ElementType::kFloat32);
    EXPECT_THAT(array.shape, ElementsAre(3, 2));
    EXPECT_EQ(array.offset, 8 + (version == 1 ? 2 : 4) + matrix.size());
  }
  EXPECT_THAT(parsed(file_of(dictionary("|u1", "(5,)"), 5)).shape, ElementsAre(5));
  EXPECT_THAT(parsed(file_of(dictionary("<i8", "()"), 8)).shape, IsEmpty());
  EXPECT_THAT(parsed(file_of(dictionary("<i8", "(0, 4)"), 0)).shape, ElementsAre(0, 4));
  EXPECT_THAT(parsed(file_of(dictionary("<i8", "(2L, 1L)"), 16)).shape, ElementsAre(2, 1))
      << "Python 2";
  EXPECT_THAT(parsed(file_of(dictionary("<i2", "(4,)", "True"), 8)).shape, ElementsAre(4))
      << "of one dimension there is one order";
  EXPECT_EQ(parsed(file_of(dictionary(">u1", "(4,)"), 4)).type, ElementType::kUint8);
}

TEST(Npy, EveryType) {
  const std::pair<const char*, ElementType> types[] = {
      {"|b1", ElementType::kBool},      {"|i1", ElementType::kInt8},
      {"<i2", ElementType::kInt16},     {"<i4", ElementType::kInt32},
      {"<i8", ElementType::kInt64},     {"|u1", ElementType::kUint8},
      {"<u2", ElementType::kUint16},    {"<u4", ElementType::kUint32},
      {"<u8", ElementType::kUint64},    {"<f2", ElementType::kFloat16},
      {"<f4", ElementType::kFloat32},   {"<f8", ElementType::kFloat64},
      {"<c8", ElementType::kComplex64}, {"<c16", ElementType::kComplex128}};
  for (const auto& [descr, type] : types)
    EXPECT_EQ(parsed(file_of(dictionary(descr, "(2,)"), 32)).type, type) << descr;
}

TEST(Npy, WhatCannotBeReadIsSaid) {
  const std::string good = dictionary("<f4", "(3, 2)");
  EXPECT_THAT(error_of(file_of(dictionary(">f4", "(3,)"), 12)), HasSubstr("big-endian"));
  EXPECT_THAT(error_of(file_of(dictionary("<f4", "(3, 2)", "True"), 24)),
              HasSubstr("numpy.ascontiguousarray"));
  EXPECT_THAT(error_of(file_of(dictionary("|O", "(3,)"), 24)), HasSubstr("'|O'"));
  EXPECT_THAT(error_of(file_of(dictionary("<U5", "(3,)"), 99)), HasSubstr("'<U5'"));
  EXPECT_THAT(
      error_of(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12)),
      HasSubstr("holds structures"));
  EXPECT_THAT(error_of(file_of(good, 23)), HasSubstr("ends before its array does"));
  EXPECT_THAT(error_of(file_of(good, 24, 4)), HasSubstr("version 4"));
  EXPECT_THAT(error_of({'P', 'K', 3, 4, 0, 0, 0, 0, 0, 0}),
              HasSubstr("was not written by numpy.save()"));
  EXPECT_THAT(error_of({}), HasSubstr("ends within its header"));
  Bytes cut = file_of(good, 24);
  cut.resize(40);
  EXPECT_THAT(error_of(cut), HasSubstr("ends within its header"));
}

TEST(Npy, HeadersThatAreDamaged) {
  for (const std::string header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} more", "{'descr: '<f4'}"})
    EXPECT_THAT(error_of(file_of(header, 12)), HasSubstr("a.npy: ")) << header;
}

}  // namespace
}  // namespace kolo::data
