#include "tools/checkpoint/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<unsigned char>;

Bytes file_of(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  Bytes bytes(sizeof length + header.size() + data, 7);
  std::memcpy(bytes.data(), &length, sizeof length);
  std::memcpy(bytes.data() + sizeof length, header.data(), header.size());
  return bytes;
}

Bytes bytes_of(const Contents& contents) {
  Bytes all;
  for (const Bytes& part : make_safetensors(contents))
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

Contents some() {
  Contents contents;
  contents.tensors = {{"a.weight", ElementType::kFloat32, {2, 3}, Bytes(24, 1)},
                      {"\303\274", ElementType::kBfloat16, {}, Bytes(2, 2)},
                      {"empty", ElementType::kInt64, {0, 5}, {}},
                      {"bool", ElementType::kBool, {5}, Bytes(5, 1)}};
  contents.notes = {{"format", "pt"}};
  return contents;
}

TEST(Safetensors, ThereAndBack) {
  const Contents contents = some();
  const Contents back = parse_safetensors(bytes_of(contents), "file");
  ASSERT_EQ(back.tensors.size(), contents.tensors.size());
  for (std::size_t i = 0; i < back.tensors.size(); ++i) {
    EXPECT_EQ(back.tensors[i].name, contents.tensors[i].name);
    EXPECT_EQ(back.tensors[i].type, contents.tensors[i].type);
    EXPECT_EQ(back.tensors[i].shape, contents.tensors[i].shape);
    EXPECT_EQ(back.tensors[i].bytes, contents.tensors[i].bytes);
  }
  EXPECT_EQ(back.notes, contents.notes);
}

// As the reference implementation writes it.
TEST(Safetensors, ReadsAFileOfOthers) {
  const Contents contents = parse_safetensors(
      file_of(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[2,2],)"
              R"("data_offsets":[0,8]}}   )",
              8),
      "file");
  ASSERT_EQ(contents.tensors.size(), 1);
  EXPECT_EQ(contents.tensors[0].type, ElementType::kFloat16);
  EXPECT_EQ(contents.tensors[0].bytes, Bytes(8, 7));
}

TEST(Safetensors, MetadataMayBeNull) {
  const Contents contents = parse_safetensors(
      file_of(R"({"__metadata__":null,"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
      "file");
  EXPECT_EQ(contents.tensors.size(), 1U);
  EXPECT_TRUE(contents.notes.empty());
}

std::string refusal(const Bytes& bytes) {
  try {
    parse_safetensors(bytes, "the file");
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the file is not a safetensors file"));
    return error.what();
  }
  return "";
}

TEST(Safetensors, WhatIsWrongIsRefused) {
  const auto tensor = [](const std::string& entry, std::size_t data) {
    return refusal(file_of(R"({"w":)" + entry + "}", data));
  };
  EXPECT_THAT(refusal({}), HasSubstr("too short"));
  EXPECT_THAT(refusal(Bytes(20, 255)), HasSubstr("longer than the file"));
  EXPECT_THAT(refusal(file_of("[]", 0)), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(file_of("{", 0)), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":[]})", 0)), HasSubstr("metadata"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("not a text"));
  const std::string whole = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_EQ(refusal(file_of(whole + "\n  ", 1)), "");
  EXPECT_THAT(refusal(file_of(whole + std::string(3, '\0'), 1)), HasSubstr("zero byte"));
  EXPECT_THAT(refusal(file_of("\xef\xbb\xbf" + whole, 1)), HasSubstr("byte order mark"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"a":"1"},"__metadata__":{"b":"1"}})", 0)),
              HasSubstr("'__metadata__' twice"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"a":"1","\u0061":"2"}})", 0)),
              HasSubstr("'a' twice"));
  EXPECT_THAT(refusal(file_of(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                              R"("w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                              2)),
              HasSubstr("'w' twice"));
  EXPECT_THAT(tensor(R"({"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]})", 1),
              HasSubstr("'dtype' twice"));
  EXPECT_THAT(tensor("1", 0), HasSubstr("lacks dtype"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[1]})", 4), HasSubstr("lacks dtype"));
  EXPECT_THAT(tensor(R"({"dtype":"X","shape":[1],"data_offsets":[0,4]})", 4), HasSubstr("dtype X"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4),
              HasSubstr("value that is not a whole number"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", 4),
              HasSubstr("value that is not a whole number"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})", 4),
              HasSubstr("impossible shape"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]})", 4),
              HasSubstr("does not fit"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4),
              HasSubstr("does not fit"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 4),
              HasSubstr("within the file"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4),
              HasSubstr("within the file"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 5),
              HasSubstr("belong to no tensor"));
  EXPECT_THAT(tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[1,5]})", 5), HasSubstr("holes"));
}

TEST(Safetensors, TruncationsAndFlips) {
  const Bytes whole = bytes_of(some());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refusal(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))), "");
  std::minstd_rand random(1);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = whole;
    bytes[random() % bytes.size()] ^= static_cast<unsigned char>(1 << random() % 8);
    refusal(bytes);  // or another name or value: the format has no checksums
  }
}

TEST(Safetensors, WhatTheFormatLacksIsRefused) {
  const auto refused = [](const Contents& contents) -> std::string {
    try {
      make_safetensors(contents);
    } catch (const InvalidArgumentError& error) {
      return error.what();
    }
    return "";
  };
  Contents contents;
  contents.tensors = {{"z", ElementType::kComplex128, {1}, Bytes(16)}};
  EXPECT_THAT(refused(contents), HasSubstr("no dtype for 'z'"));
  contents.tensors = {{"__metadata__", ElementType::kUint8, {1}, Bytes(1)}};
  EXPECT_THAT(refused(contents), HasSubstr("cannot be named '__metadata__'"));
  contents.tensors = {{"a\xff", ElementType::kUint8, {1}, Bytes(1)}};
  EXPECT_THAT(refused(contents), HasSubstr("not UTF-8"));
  contents = some();
  contents.notes["n"] = "\xff";
  EXPECT_THAT(refused(contents), HasSubstr("the note 'n': \"\\ufffd\" is not UTF-8"));
}

}  // namespace
}  // namespace kolo::tools
