// Files that are damaged give an error that says so, and never wrong tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "checkpoint/header.hpp"
#include "checkpoint/memory_files.hpp"
#include "checkpoint/saved_state.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint::test {
namespace {

using Bytes = MemoryFiles::Bytes;
using testing::AllOf;
using testing::HasSubstr;

class Damage : public testing::Test {
 protected:
  Damage() {
    Shelf shelf(files_, "f", "c", {});
    save_small(files_, shelf, 10);
    path_ = shelf.path_of(10);
    whole_ = files_.content(path_);
  }

  // Empty if it is read without an error, and has the right bytes.
  std::string error_of(const Bytes& bytes) {
    files_.set_content(path_, bytes);
    try {
      step_if_whole(files_, path_);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  Header header() const {
    HeaderBytes bytes{};
    std::memcpy(bytes.data(), whole_.data(), bytes.size());
    return decode_header(bytes, whole_.size(), path_);
  }
  Bytes with_header(const Header& changed) const {
    Bytes bytes = whole_;
    const HeaderBytes encoded = encode(changed);
    std::memcpy(bytes.data(), encoded.data(), encoded.size());
    return bytes;
  }

  MemoryFiles files_;
  std::string path_;
  Bytes whole_;
};

TEST_F(Damage, WholeFileIsRead) {
  EXPECT_EQ(error_of(whole_), "");
}

TEST_F(Damage, ThousandTruncations) {
  std::minstd_rand random(1);
  for (int i = 0; i < 1000; ++i) {
    // Half of them where the header and the table are.
    const std::size_t size = random() % (i % 2 == 0 ? 20000 : whole_.size());
    const std::string error =
        error_of(Bytes(whole_.begin(), whole_.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_THAT(error, HasSubstr(path_)) << "cut to " << size;
    if (size > kHeaderBytes) {
      EXPECT_THAT(error, HasSubstr("it was cut off"));
    }
  }
}

// What no checksum covers is padding, where a flip changes nothing.
TEST_F(Damage, ThousandBitFlips) {
  std::minstd_rand random(2);
  int noticed = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t at = random() % (i % 2 == 0 ? 24000 : whole_.size());
    Bytes bytes = whole_;
    bytes[at] ^= static_cast<unsigned char>(1 << random() % 8);
    const std::string error = error_of(bytes);  // which compares all bytes, if there is none
    if (!error.empty()) {
      ++noticed;
      EXPECT_THAT(error, HasSubstr(path_)) << "byte " << at;
    }
  }
  EXPECT_GT(noticed, 700);
}

TEST_F(Damage, EveryFlipOfHeaderAndDataIsNoticed) {
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < 128; ++at) places.push_back(at);
  const Header good = header();
  for (std::size_t at = kHeaderBytes; at < good.metadata_end; at += 97) places.push_back(at);
  for (std::uint64_t at = 0; at < good.checksums_count * 8; ++at)
    places.push_back(good.checksums_offset + at);
  Reader reader(files_, path_);
  for (const TensorEntry& entry : reader.table().tensors)
    for (std::uint64_t at = 0; at < entry.bytes(); at += 1 + entry.bytes() / 50)
      places.push_back(entry.offset + at);
  for (const std::size_t at : places) {
    Bytes bytes = whole_;
    bytes[at] ^= 4;
    EXPECT_THAT(error_of(bytes), HasSubstr(path_)) << "byte " << at;
  }
}

TEST_F(Damage, SaysWhichTensorIsDamaged) {
  Reader reader(files_, path_);
  const TensorEntry* entry = reader.table().find("model/weight");
  ASSERT_NE(entry, nullptr);
  Bytes bytes = whole_;
  bytes[entry->offset + kPieceBytes + 5] ^= 1;
  EXPECT_THAT(error_of(bytes), AllOf(HasSubstr("'model/weight' does not match its checksum"),
                                     HasSubstr("bytes 1048576 to 1228800 of 1228800")));
}

TEST_F(Damage, SaysWhatElseItIs) {
  const auto beginning_with = [](const std::string& text) {
    Bytes bytes(8192);
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  };
  EXPECT_THAT(error_of({}), HasSubstr("it is empty"));
  EXPECT_THAT(error_of(Bytes(8192)), HasSubstr("its writing was not finished"));
  EXPECT_THAT(error_of(beginning_with("\211HDF\r\n\032\n")), HasSubstr("HDF5 file that kolo has"));
  EXPECT_THAT(error_of(beginning_with("PK\003\004")), HasSubstr("kolo checkpoint convert"));
  EXPECT_THAT(error_of(beginning_with("hello")), HasSubstr("something else"));
  EXPECT_THAT(error_of({'h', 'i'}), HasSubstr("something else"));
}

TEST_F(Damage, NewerMinorVersionIsReadNewerMajorIsRefused) {
  Header newer = header();
  newer.minor = kMinor + 1;
  EXPECT_EQ(error_of(with_header(newer)), "");
  newer.major = kMajor + 1;
  EXPECT_THAT(error_of(with_header(newer)),
              AllOf(HasSubstr("was written by a newer kolo, in format 2.1"),
                    HasSubstr("this one reads up to 1.x")));
  EXPECT_THROW(Reader(files_, path_), NewerVersionError);
}

// Numbers that a checksum confirms and that cannot be: no crash, no request for all memory.
TEST_F(Damage, HeadersThatCannotBe) {
  const auto changed = [&](auto change) {
    Header one = header();
    change(one);
    return error_of(with_header(one));
  };
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{4097}, std::uint64_t{5000},
        static_cast<std::uint64_t>(whole_.size()), static_cast<std::uint64_t>(whole_.size()) + 1,
        std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    EXPECT_NE(changed([&](Header& one) { one.metadata_end = number; }), "") << number;
    EXPECT_NE(changed([&](Header& one) { one.checksums_offset = number; }), "") << number;
    EXPECT_NE(changed([&](Header& one) { one.checksums_count = number; }), "") << number;
    if (number == whole_.size()) continue;
    EXPECT_NE(changed([&](Header& one) { one.file_size = number; }), "") << number;
  }
  EXPECT_NE(changed([](Header& one) { one.major = 0; }), "");
}

}  // namespace
}  // namespace kolo::checkpoint::test
