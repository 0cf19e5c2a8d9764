// Tables of numbers in text.
#include "data/csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kolo/error.h"

namespace kolo::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CsvTable parse(const std::string& text, char delimiter = ',') {
  return parse_csv(text, delimiter, "t.csv");
}

std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const DataError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Csv, HasTheNumbersOfTheText) {
  const CsvTable table = parse("a,b,c\n1,2.5,-3e2\n+4, 5 ,.5\n");
  EXPECT_THAT(table.columns, ElementsAre("a", "b", "c"));
  EXPECT_THAT(table.values, ElementsAre(1, 2.5, -300, 4, 5, 0.5));
  EXPECT_EQ(table.rows(), 2U);
}

TEST(Csv, ColumnsWithoutAHeaderHaveNumbers) {
  const CsvTable table = parse("1,2\n3,4");
  EXPECT_THAT(table.columns, ElementsAre("0", "1"));
  EXPECT_THAT(table.values, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(table.column("1", "t.csv"), 1U);
}

TEST(Csv, TakesEachFormOfLinesAndCells) {
  for (const std::string text : {
           "x,y\r\n1,2\r\n3,4\r\n",
           "x,y\n1,2\n3,4",
           "\xEF\xBB\xBFx,y\n\n1,2\n\n   \n3,4\n\n",
           "\"x\",\"y\"\n\"1\",2\n3,\"4\"\n",
           "x,y\r1,2\r3,4\r",
       }) {
    const CsvTable table = parse(text);
    EXPECT_THAT(table.columns, ElementsAre("x", "y")) << text;
    EXPECT_THAT(table.values, ElementsAre(1, 2, 3, 4)) << text;
  }
  EXPECT_THAT(parse("1\t2\n", '\t').values, ElementsAre(1, 2));
  EXPECT_THAT(parse("1;2\n", ';').values, ElementsAre(1, 2));
  EXPECT_THAT(parse("\"a, \"\"b\"\"\nc\",d\n1,2\n").columns, ElementsAre("a, \"b\"\nc", "d"));
  EXPECT_THAT(parse("only\n").columns, ElementsAre("only"));
}

TEST(Csv, NumbersThatAreMissingOrEndlessAreNumbers) {
  const CsvTable table = parse("nan,inf,-inf\n");
  EXPECT_TRUE(std::isnan(table.values.at(0)));
  EXPECT_TRUE(std::isinf(table.values.at(1)));
  EXPECT_LT(table.values.at(2), 0);
}

TEST(Csv, RefusesWhatIsNoTable) {
  EXPECT_THAT(refusal(""), AllOf(StartsWith("t.csv: "), HasSubstr("has no lines")));
  EXPECT_THAT(refusal("a,b\n1,2\n3,x\n"),
              AllOf(HasSubstr("line 3, column 'b'"), HasSubstr("'x', which is not a number")));
  EXPECT_THAT(refusal("5.1,,0\n4.9,3,1\n"), HasSubstr("line 1 has numbers and other cells"));
  EXPECT_THAT(parse("1e-400,1\n").values, ElementsAre(0, 1));
  EXPECT_THAT(refusal("a,b\n1,\n"), HasSubstr("line 2, column 'b' is empty"));
  EXPECT_THAT(refusal("a,b\n1,2,3\n"), HasSubstr("line 2 has 3 cells, and the first line 2"));
  EXPECT_THAT(refusal("a,b\n1\n"), HasSubstr("line 2 has 1 cells"));
  EXPECT_THAT(refusal("a,a\n1,2\n"), HasSubstr("two columns have the name 'a'"));
  EXPECT_THAT(refusal("\"a\n1\n"), HasSubstr("line 1 has a quoted cell without an end"));
  EXPECT_THAT(refusal("\"a\"b\n"), HasSubstr("line 1 has text behind a quoted cell"));
  EXPECT_THAT(refusal("\"a\nb\",c\n1,2\n1,x\n"), HasSubstr("line 4")) << "a cell has a line's end";
  EXPECT_THAT(refusal("a\n1e999\n"), HasSubstr("not a number"));
  EXPECT_THAT(refusal("a\n+-1\n"), HasSubstr("not a number"));
  try {
    parse("a,b\n1,2\n").column("c", "t.csv");
    ADD_FAILURE() << "there is no such column";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no column 'c'; it has 'a', 'b'"));
  }
}

TEST(Csv, DelimitersStandInNoNumber) {
  for (const char c : {',', ';', '\t', '|', ' ', ':', '_'}) EXPECT_TRUE(is_delimiter(c)) << c;
  for (const char c : {'1', 'e', 'N', '-', '+', '.', '"', '\n', '\r', '\0'}) {
    EXPECT_FALSE(is_delimiter(c)) << c;
    EXPECT_THROW(parse_csv("1,2\n", c, "table.csv"), InvalidArgumentError) << c;
  }
}

// Any bytes give a table or a DataError.
TEST(Csv, AnyTextIsATableOrRefused) {
  std::mt19937 random(3);
  const std::string letters = "0123456789,\"\n\r.-+e nx\t\xEF\xBB\xBF";
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 24, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    try {
      const CsvTable table = parse(text);
      EXPECT_EQ(table.values.size(), table.rows() * table.columns.size());
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), StartsWith("t.csv: "));
    }
  }
}

}  // namespace
}  // namespace kolo::data
