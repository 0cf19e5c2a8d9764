// Every element type, and every way in which a file can be wrong.
#include "kolo/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "data/data_file.hpp"
#include "data/idx_bytes.hpp"
#include "kolo/error.h"

namespace kolo::data {
namespace {

using test::Bytes;
using test::gzip;
using test::idx_header;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using test::operator+;
using test::write;
using testing_support::TemporaryFolder;

constexpr std::uint8_t kUint8 = 0x08;
const Bytes kTwoByThree = idx_header(kUint8, {2, 3}) + Bytes{1, 2, 3, 4, 5, 6};

IdxArray parse(const Bytes& bytes) {
  return parse_idx(bytes.data(), bytes.size(), "a.idx");
}

std::string error_of(const Bytes& bytes) {
  return message_of<DataError>([&] { parse(bytes); });
}

template <typename Element>
std::vector<Element> elements_of(const IdxArray& array) {
  std::vector<Element> elements(array.bytes.size() / sizeof(Element));
  std::memcpy(elements.data(), array.bytes.data(), array.bytes.size());
  return elements;
}

TEST(IdxTypes, Uint8) {
  const IdxArray array = parse(kTwoByThree);
  EXPECT_EQ(array.dtype, IdxType::kUint8);
  EXPECT_THAT(array.shape, ElementsAre(2, 3));
  EXPECT_THAT(array.bytes, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(IdxTypes, Int8) {
  const IdxArray array = parse(idx_header(0x09, {3}) + Bytes{0x80, 0xFF, 0x7F});
  EXPECT_EQ(array.dtype, IdxType::kInt8);
  EXPECT_THAT(elements_of<std::int8_t>(array), ElementsAre(-128, -1, 127));
}

TEST(IdxTypes, Int16) {
  const IdxArray array = parse(idx_header(0x0B, {2}) + Bytes{0x01, 0x02, 0xFF, 0xFE});
  EXPECT_EQ(array.dtype, IdxType::kInt16);
  EXPECT_THAT(elements_of<std::int16_t>(array), ElementsAre(258, -2));
}

TEST(IdxTypes, Int32) {
  const IdxArray array = parse(idx_header(0x0C, {2}) + Bytes{1, 2, 3, 4, 0xFF, 0xFF, 0xFF, 0xFD});
  EXPECT_EQ(array.dtype, IdxType::kInt32);
  EXPECT_THAT(elements_of<std::int32_t>(array), ElementsAre(0x01020304, -3));
}

TEST(IdxTypes, Float32) {
  const IdxArray array = parse(idx_header(0x0D, {2}) + Bytes{0x3F, 0xC0, 0, 0, 0xC0, 0, 0, 0});
  EXPECT_EQ(array.dtype, IdxType::kFloat32);
  EXPECT_THAT(elements_of<float>(array), ElementsAre(1.5F, -2.0F));
}

TEST(IdxTypes, Float64) {
  const IdxArray array =
      parse(idx_header(0x0E, {1}) + Bytes{0x40, 0x09, 0x21, 0xFB, 0x54, 0x44, 0x2D, 0x18});
  EXPECT_EQ(array.dtype, IdxType::kFloat64);
  EXPECT_THAT(elements_of<double>(array), ElementsAre(3.141592653589793));
}

TEST(IdxTypes, NamesAndSizes) {
  EXPECT_STREQ(name_of(IdxType::kInt16), "int16");
  EXPECT_EQ(size_of(IdxType::kInt16), 2U);
  EXPECT_EQ(size_of(static_cast<IdxType>(0x0A)), 0U);
  EXPECT_STREQ(name_of(static_cast<IdxType>(0x0A)), "unknown");
}

TEST(IdxShapes, RankOneAndRank255) {
  EXPECT_THAT(parse(idx_header(kUint8, {1}) + Bytes{7}).shape, ElementsAre(1));
  const IdxArray array = parse(idx_header(kUint8, std::vector<std::uint32_t>(255, 1)) + Bytes{7});
  EXPECT_EQ(array.shape, std::vector<std::int64_t>(255, 1));
  EXPECT_THAT(array.bytes, ElementsAre(7));
}

TEST(IdxShapes, SizeZeroIsAnEmptyArray) {
  const IdxArray array = parse(idx_header(0x0E, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0}));
  EXPECT_THAT(array.shape, ElementsAre(0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0));
  EXPECT_TRUE(array.bytes.empty());
}

TEST(IdxWrong, Empty) {
  EXPECT_EQ(error_of({}).rfind("a.idx: is empty; ", 0), 0U);
}

TEST(IdxWrong, OtherFirstBytes) {
  EXPECT_THAT(error_of({'P', 'K', 3, 4}), HasSubstr("not an IDX file: it begins with the byte 50"));
  EXPECT_THAT(error_of({0, 1, kUint8, 1}),
              HasSubstr("not an IDX file: it begins with the byte 01"));
}

TEST(IdxWrong, UnknownType) {
  for (const int type : {0x00, 0x07, 0x0A, 0x0F, 0xFF}) {
    EXPECT_THAT(error_of(idx_header(static_cast<std::uint8_t>(type), {1}) + Bytes{1}),
                HasSubstr("unknown element type"));
  }
}

TEST(IdxWrong, NoDimensions) {
  EXPECT_THAT(error_of(idx_header(kUint8, {}) + Bytes{1}), HasSubstr("0 dimensions"));
}

TEST(IdxWrong, EndsInHeader) {
  for (std::size_t size = 1; size < idx_header(kUint8, {2, 3}).size(); ++size) {
    EXPECT_THAT(error_of(Bytes(kTwoByThree.begin(), kTwoByThree.begin() + static_cast<long>(size))),
                HasSubstr("ends within its header"));
  }
}

TEST(IdxWrong, SizesThatNoMemoryCanHold) {
  EXPECT_THAT(error_of(idx_header(kUint8, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}) + Bytes{1}),
              HasSubstr("[4294967295, 4294967295, 4294967295], which no memory can hold"));
  // 2^32 * 2^31 elements overflow nothing yet; with 8 bytes each they do.
  EXPECT_THAT(error_of(idx_header(0x0E, {0x80000000, 0x80000000}) + Bytes{1}),
              HasSubstr("no memory can hold"));
  // 2^64 bytes: the product is 0 in 64 bits.
  EXPECT_THAT(error_of(idx_header(kUint8, {0x80000000, 0x80000000, 4})),
              HasSubstr("no memory can hold"));
}

TEST(IdxWrong, LyingSizesTakeNoMemory) {
  const Bytes lie = idx_header(kUint8, {0x7FFFFFFF, 0x7FFFFFFF}) + Bytes{1, 2, 3};
  EXPECT_THAT(error_of(lie), HasSubstr("too short: its header promises [2147483647, 2147483647]"));
  EXPECT_THAT(error_of(gzip(lie)), HasSubstr("too short"));
}

TEST(IdxWrong, DataTooShort) {
  Bytes bytes = kTwoByThree;
  bytes.pop_back();
  EXPECT_THAT(error_of(bytes),
              AllOf(HasSubstr("a.idx: "), HasSubstr("[2, 3] elements of uint8, 6 bytes"),
                    HasSubstr("get it again")));
  EXPECT_THAT(error_of(gzip(bytes)), HasSubstr("too short"));
}

TEST(IdxWrong, DataTooLong) {
  EXPECT_THAT(error_of(kTwoByThree + Bytes{0}), HasSubstr("too long: bytes follow the 6 bytes"));
  EXPECT_THAT(error_of(gzip(kTwoByThree + Bytes{0})), HasSubstr("too long"));
  EXPECT_THAT(error_of(idx_header(kUint8, {0}) + Bytes{0}),
              HasSubstr("too long: bytes follow the 0 bytes"));
}

TEST(IdxGzip, EveryKindOfBlock) {
  Bytes plain = idx_header(kUint8, {50, 1000});
  for (std::uint32_t i = 0; i < 50 * 1000; ++i)
    plain.push_back(static_cast<std::uint8_t>(i * i >> 7));
  for (const auto& [level, strategy] : {std::pair{0, Z_DEFAULT_STRATEGY},
                                        {9, Z_DEFAULT_STRATEGY},
                                        {6, Z_FIXED},
                                        {6, Z_HUFFMAN_ONLY},
                                        {6, Z_RLE}}) {
    EXPECT_EQ(parse(gzip(plain, level, strategy)).bytes, parse(plain).bytes);
  }
}

TEST(IdxGzip, SeveralMembers) {
  const Bytes header = idx_header(kUint8, {2, 3});
  EXPECT_EQ(parse(gzip(header) + gzip({}) + gzip({1, 2, 3}) + gzip({4, 5, 6}) + gzip({})).bytes,
            Bytes({1, 2, 3, 4, 5, 6}));
}

TEST(IdxGzip, LargerThanTheReadersBuffers) {
  constexpr std::uint32_t kRows = 3001;
  Bytes plain = idx_header(0x0C, {kRows, 1000});
  std::uint32_t noise = 1;
  for (std::uint32_t i = 0; i < kRows * 1000 * 4; ++i) {
    noise = noise * 1664525U + 1013904223U;
    plain.push_back(static_cast<std::uint8_t>(noise >> 24));
  }
  const IdxArray array = parse(plain);
  EXPECT_EQ(array.bytes.size(), kRows * 4000U);
  EXPECT_EQ(parse(gzip(plain, 1)).bytes, array.bytes);
}

TEST(IdxGzip, Damaged) {
  const Bytes packed = gzip(kTwoByThree);
  Bytes checksum = packed;
  checksum[packed.size() - 8] ^= 1;
  EXPECT_THAT(error_of(checksum), HasSubstr("gzip data are damaged (incorrect data check)"));
  Bytes length = packed;
  length[packed.size() - 4] ^= 1;
  EXPECT_THAT(error_of(length), HasSubstr("gzip data are damaged (incorrect length check)"));
  Bytes method = packed;
  method[2] = 7;
  EXPECT_THAT(error_of(method), HasSubstr("gzip data are damaged (unknown compression method)"));
  EXPECT_THAT(error_of({0x1F, 0x8B}), HasSubstr("gzip data are damaged (they end too early)"));
}

TEST(IdxGzip, OtherBytesAfterTheEnd) {
  EXPECT_THAT(error_of(gzip(kTwoByThree) + Bytes{0}), HasSubstr("other bytes follow the end"));
  EXPECT_THAT(error_of(gzip(kTwoByThree) + Bytes{'x', 'y', 'z'}),
              HasSubstr("other bytes follow the end"));
}

TEST(IdxGzip, HoldsNothingOrNoIdx) {
  EXPECT_THAT(error_of(gzip({})), HasSubstr("is empty"));
  EXPECT_THAT(error_of(gzip({0, 0, 8})), HasSubstr("ends within its header"));
  EXPECT_THAT(error_of(gzip(gzip(kTwoByThree))), HasSubstr("not an IDX file"));
}

// 64 MiB of zeros pack into 64 KiB. The header says 6 bytes, so not much more is ever unpacked.
TEST(IdxGzip, Bomb) {
  const Bytes bomb = gzip(kTwoByThree + Bytes(std::size_t{64} << 20, 0), 9);
  ASSERT_LT(bomb.size(), std::size_t{1} << 17);
  EXPECT_THAT(error_of(bomb), HasSubstr("too long"));
}

// The same bomb with an honest header is no bomb, though hardly anything can be packed better.
TEST(IdxGzip, BestRatio) {
  constexpr std::uint32_t kBytes = 64U << 20;
  const Bytes packed = gzip(idx_header(kUint8, {kBytes}) + Bytes(kBytes, 0), 9);
  ASSERT_GT(kBytes, 1020 * packed.size());
  EXPECT_EQ(parse(packed).bytes.size(), kBytes);
}

long peak_memory_kib() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Deflate could pack what this header promises into a file of this size, so only unpacking shows
// the lie. It must not take the memory beforehand.
TEST(IdxGzip, LieThatTheRatioAllowsTakesNoMemory) {
  Bytes plain = idx_header(kUint8, {1000, 1U << 20});
  for (std::uint32_t i = 0; i < 1U << 20; ++i)
    plain.push_back(static_cast<std::uint8_t>(i * i >> 9));
  const Bytes packed = gzip(plain, 0);
  const long before = peak_memory_kib();
  EXPECT_THAT(error_of(packed), HasSubstr("too short"));
  EXPECT_LT(peak_memory_kib() - before, 100 * 1024);
}

TEST(IdxFiles, PlainAndGzipWhateverTheName) {
  const TemporaryFolder folder;
  const std::string plain = write(folder, "plain.gz", kTwoByThree);
  const std::string packed = write(folder, "packed", gzip(kTwoByThree));
  EXPECT_THAT(read_idx(plain).bytes, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read_idx(packed).bytes, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(IdxFiles, MessageBeginsWithThePath) {
  const TemporaryFolder folder;
  const std::string path = write(folder, "short", idx_header(kUint8, {100, 100}));
  EXPECT_EQ(message_of<DataError>([&] { read_idx(path); }).rfind(path + ": is too short", 0), 0U);
}

TEST(IdxFiles, Missing) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      message_of<DataError>([&] { read_idx(folder / "none"); }),
      AllOf(HasSubstr(folder / "none"), HasSubstr("No such file"), HasSubstr("check the path")));
  EXPECT_THAT(message_of<DataError>([] { read_idx(""); }), HasSubstr("cannot be opened"));
}

TEST(IdxFiles, FolderOrPipe) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { read_idx(folder.path()); }), HasSubstr("is a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<DataError>([&] { read_idx(folder / "pipe"); }),
              HasSubstr("not a regular file"));
}

TEST(IdxFiles, Unreadable) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  const std::string path = write(folder, "secret", kTwoByThree);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  EXPECT_THAT(message_of<DataError>([&] { read_idx(path); }), HasSubstr("Permission denied"));
}

// Reading this file at address 0 fails for everyone, root too. Its size is 0, so a reader of a
// whole file would not try.
TEST(IdxFiles, ReadError) {
  if (::access("/proc/self/mem", R_OK) != 0) GTEST_SKIP() << "no /proc/self/mem here";
  const DataFile file("/proc/self/mem");
  std::uint8_t byte = 0;
  std::vector<iovec> parts{{&byte, 1}};
  EXPECT_THAT(message_of<DataError>([&] { file.read(0, parts); }), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace kolo::data
