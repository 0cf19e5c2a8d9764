#include "collectives/algorithms/table.hpp"
#include "collectives/algorithms/algorithms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace kolo {
namespace {

using ::testing::HasSubstr;
using enum AllreduceAlgorithm;

const std::string kHeader = "# kolo allreduce table, version 1\n";
const std::string kText = kHeader +
                          "ranks 4\n0 recursive-doubling\n32768 halving-doubling\n1048576 ring\n"
                          "ranks 64\n0 tree\n";

AllreduceTable parsed(const std::string& text) {
  AllreduceTable table;
  const Status status = parse_allreduce_table(text, table);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return table;
}

std::string error_of(const std::string& text) {
  AllreduceTable table;
  const Status status = parse_allreduce_table(text, table);
  EXPECT_EQ(status.code(), StatusCode::kData) << text;
  EXPECT_EQ(table, AllreduceTable{}) << "changed in spite of the error";
  return status.message();
}

TEST(AllreduceTable, BuiltIn) {
  const AllreduceTable table;
  for (const int ranks : {1, 2, 3, 1000}) {
    EXPECT_EQ(table.choose(ranks, 0), kRecursiveDoubling);
    EXPECT_EQ(table.choose(ranks, (32 << 10) - 1), kRecursiveDoubling);
    EXPECT_EQ(table.choose(ranks, 32 << 10), kRing);
    EXPECT_EQ(table.choose(ranks, std::size_t{1} << 40), kRing);
  }
}

TEST(AllreduceTable, ChoosesByBytes) {
  const AllreduceTable table = parsed(kText);
  EXPECT_EQ(table.choose(4, 0), kRecursiveDoubling);
  EXPECT_EQ(table.choose(4, 32767), kRecursiveDoubling);
  EXPECT_EQ(table.choose(4, 32768), kHalvingDoubling);
  EXPECT_EQ(table.choose(4, 1048575), kHalvingDoubling);
  EXPECT_EQ(table.choose(4, 1048576), kRing);
  EXPECT_EQ(table.choose(64, 0), kTree);
}

TEST(AllreduceTable, OtherNumbersOfRanksTakeTheNearestByRatio) {
  const AllreduceTable table = parsed(kText);
  for (const int ranks : {1, 2, 3, 5, 15, 16}) EXPECT_EQ(table.choose(ranks, 1 << 20), kRing);
  for (const int ranks : {17, 63, 65, 1 << 30}) EXPECT_EQ(table.choose(ranks, 1 << 20), kTree);
}

TEST(AllreduceTable, IsReadAsItIsWritten) {
  const AllreduceTable table = parsed(kText);
  ASSERT_EQ(table.groups.size(), 2U);
  EXPECT_EQ(table.groups.at(64), (std::vector<AllreduceRow>{{0, kTree}}));
  EXPECT_EQ(write_allreduce_table(table), kText);
  EXPECT_EQ(parsed(write_allreduce_table(AllreduceTable{})), AllreduceTable{});
}

TEST(AllreduceTable, CommentsLineEndsAndTheOrderOfGroupsDoNotCount) {
  const AllreduceTable table = parsed(kText);
  EXPECT_EQ(parsed(kText.substr(0, kText.size() - 1)), table);
  EXPECT_EQ(parsed(kHeader + "\n# made by hand\nranks 64\n#\n0 tree\n\nranks 4\n" +
                   "0 recursive-doubling\n32768 halving-doubling\n# large\n1048576 ring\n# end"),
            table);
  std::string text;
  for (const char c : kText) text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(parsed(text), table);
}

TEST(AllreduceTable, ErrorsSayLineReasonAndWhatIsExpected) {
  struct Case {
    std::string text;
    const char* line;
    const char* reason;
    const char* expected;
  };
  const std::string ranks = kHeader + "ranks 2\n";
  const Case cases[] = {
      {"", "line 1: ", "''", "version 1'"},
      {"ranks 2\n0 ring\n", "line 1: ", "'ranks 2'", "version 1'"},
      {"# kolo allreduce table, version 2\nranks 2\n0 ring\n", "line 1: ", "version 2'",
       "version 1'"},
      {kHeader, "line 1: ", "without rows", "'ranks N'"},
      {kHeader + "0 ring\n", "line 2: ", "before any number of ranks", "'ranks N'"},
      {ranks, "line 2: ", "ranks 2 has no rows", "'0 ALGORITHM'"},
      {ranks + "ranks 4\n0 ring\n", "line 3: ", "ranks 2 has no rows", "'0 ALGORITHM'"},
      {ranks + "1 ring\n", "line 3: ", "begins at 1 bytes", "expected 0"},
      {ranks + "0 ring\n0 tree\n", "line 4: ", "0 is not above 0", "increase"},
      {ranks + "0 ring\n9 tree\n8 ring\n", "line 5: ", "8 is not above 9", "increase"},
      {ranks + "0 ring\nranks 3\n0 ring\nranks 2\n0 ring\n", "line 6: ", "'ranks 2' appears twice",
       "once"},
      {ranks + "0 rings\n", "line 3: ", "'rings' is not an algorithm", "or tree"},
      {ranks + "0 \n", "line 3: ", "'' is not an algorithm", "or tree"},
      {ranks + "0  ring\n", "line 3: ", "' ring' is not an algorithm", "or tree"},
      {ranks + "0 ring \n", "line 3: ", "'ring ' is not an algorithm", "or tree"},
      {ranks + "0 ring\r\r\n", "line 3: ", "'ring?' is not an algorithm", "or tree"},
      {ranks + "ring\n", "line 3: ", "'ring' is not a row", "'BYTES ALGORITHM'"},
      {ranks + "-1 ring\n", "line 3: ", "'-1 ring' is not a row", "0 to 1099511627776"},
      {ranks + "0x1 ring\n", "line 3: ", "is not a row", "0 to 1099511627776"},
      {ranks + "0 ring\n1099511627777 ring\n", "line 4: ", "is not a row", "0 to 1099511627776"},
      {ranks + "99999999999999999999 ring\n", "line 3: ", "is not a row", "0 to 1099511627776"},
      {kHeader + "ranks 1\n0 ring\n", "line 2: ", "'ranks 1'", "from 2 to 1048576"},
      {kHeader + "ranks 1048577\n0 ring\n", "line 2: ", "'ranks 1048577'", "from 2 to 1048576"},
      {kHeader + "ranks \n0 ring\n", "line 2: ", "'ranks '", "from 2 to 1048576"},
      {kHeader + "ranks 2x\n0 ring\n", "line 2: ", "'ranks 2x'", "from 2 to 1048576"},
      {kHeader + "ranks 99999999999\n0 ring\n", "line 2: ", "does not name a number", "from 2"}};
  for (const Case& one : cases) {
    const std::string message = error_of(one.text);
    EXPECT_EQ(message.find(one.line), 0U) << message;
    EXPECT_THAT(message, HasSubstr(one.reason));
    EXPECT_THAT(message, HasSubstr(std::string("expected")));
    EXPECT_THAT(message, HasSubstr(one.expected));
  }
}

TEST(AllreduceTable, WhatIsWrongIsShownInShort) {
  const std::string message = error_of(std::string(100'000, '\x1b'));
  EXPECT_THAT(message, HasSubstr("'" + std::string(60, '?') + "...'"));
  EXPECT_LT(message.size(), 300U);
}

TEST(AllreduceTable, AtMostOneMebibyte) {
  std::string text = kText + "#";
  text.resize(kLongestAllreduceTable, 'x');
  EXPECT_EQ(parsed(text), parsed(kText));
  EXPECT_EQ(parsed(text + "\n"), parsed(kText));
  EXPECT_THAT(error_of(text + "x"), HasSubstr("longer than 1048576 bytes"));
  EXPECT_THAT(error_of(text + "\n\n"), HasSubstr("longer than 1048576 bytes"));
}

// As the fuzzer does (table_fuzz.cpp), in a small and repeatable way.
TEST(AllreduceTable, WhatParsesIsWrittenAndParsesAgain) {
  std::mt19937 random(1);
  const std::string bytes = "0123456789 \n\r#abcdeghilnorstuv-\t" + std::string(1, '\0');
  int valid = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::string text = kText;
    for (unsigned changes = random() % 4; changes > 0; --changes) {
      const std::size_t at = kHeader.size() + random() % (text.size() - kHeader.size());
      text.replace(at, random() % 3, random() % 2, bytes[random() % bytes.size()]);
    }
    AllreduceTable table;
    if (!parse_allreduce_table(text, table).is_ok()) continue;
    ++valid;
    ASSERT_EQ(parsed(write_allreduce_table(table)), table) << text;
    table.choose(1 + static_cast<int>(random() % 100), random());
  }
  EXPECT_GT(valid, 5'000);
  EXPECT_LT(valid, 28'000);
}

// Each piece is a message: there are not more than about a thousand, however small the setting is.
TEST(PieceBytes, AreMoreWhereThereWouldBeTooManyPieces) {
  EXPECT_EQ(piece_bytes(100, 64), 64U);
  EXPECT_EQ(piece_bytes(64 << 10, 64), 64U);
  EXPECT_EQ(piece_bytes((64 << 10) + 1024, 64), 128U);
  EXPECT_EQ(piece_bytes(4 << 20, 64), 4096U);
  EXPECT_EQ(piece_bytes(4 << 20, 128 << 10), 128U << 10);
  EXPECT_EQ(piece_bytes(std::size_t{1} << 30, 128 << 10), 1U << 20);
}

}  // namespace
}  // namespace kolo
