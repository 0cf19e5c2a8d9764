#include "benchmarks/tune.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Algorithm = AllreduceAlgorithm;

TEST(TuneGroups, AreAllRanksOfOneNodeOrThoseOfAPlace) {
  EXPECT_THAT(find_message_group({0, 0, 0}, 1).mine, ElementsAre(0, 1, 2));
  EXPECT_EQ(find_message_group({0, 0, 0}, 1).size, 3);
  EXPECT_THAT(find_message_group({0, 1, 2}, 1).mine, ElementsAre(0, 1, 2));
  EXPECT_THAT(find_message_group({0, 0, 1, 1}, 2).mine, ElementsAre(0, 2));
  EXPECT_THAT(find_message_group({0, 0, 1, 1}, 1).mine, ElementsAre(1, 3));
  EXPECT_EQ(find_message_group({0, 0, 1, 1}, 1).size, 2);
  EXPECT_THAT(find_message_group({0, 0, 1}, 1).mine, IsEmpty());  // its node has more than others
}

TEST(TuneGroups, SizesArePowersOfTwoAndTheLargest) {
  EXPECT_THAT(sizes_of_groups(1), IsEmpty());
  EXPECT_THAT(sizes_of_groups(2), ElementsAre(2));
  EXPECT_THAT(sizes_of_groups(6), ElementsAre(2, 4, 6));
  EXPECT_THAT(sizes_of_groups(8), ElementsAre(2, 4, 8));
}

// Times are those of recursive doubling, halving and doubling, ring and tree.
TEST(TuneRows, NameTheQuickestOfEachSize) {
  EXPECT_THAT(rows_of({{256, {1, 2, 3, 4}}, {1024, {9, 2, 3, 4}}, {4096, {9, 8, 3, 1}}}),
              ElementsAre(AllreduceRow{0, Algorithm::kRecursiveDoubling},
                          AllreduceRow{1024, Algorithm::kHalvingDoubling},
                          AllreduceRow{4096, Algorithm::kTree}));
}

TEST(TuneRows, KeepAnAlgorithmThatIsAlmostTheQuickest) {
  EXPECT_THAT(rows_of({{256, {100, 200, 200, 200}}, {1024, {100, 200, 96, 200}}}),
              ElementsAre(AllreduceRow{0, Algorithm::kRecursiveDoubling}));
  EXPECT_THAT(rows_of({{256, {100, 200, 200, 200}}, {1024, {100, 200, 94, 200}}}),
              ElementsAre(AllreduceRow{0, Algorithm::kRecursiveDoubling},
                          AllreduceRow{1024, Algorithm::kRing}));
}

TEST(TuneTable, WithItsCommentsIsStillATable) {
  AllreduceTable table;
  table.groups = {{4, rows_of({{256, {1, 2, 3, 4}}, {1024, {9, 8, 3, 4}}})}};
  const std::string text = table_with_comments(table, {"measured by a test"});
  EXPECT_THAT(text, testing::HasSubstr("\n# measured by a test\nranks 4\n"));
  AllreduceTable read;
  ASSERT_TRUE(parse_allreduce_table(text, read).is_ok());
  EXPECT_EQ(read, table);
}

}  // namespace
}  // namespace kolo::bench
