#include "cli/man_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/program_options.hpp>

namespace kolo::cli {
namespace {

namespace po = boost::program_options;
using testing::HasSubstr;
using testing::Not;

po::options_description options() {
  po::options_description table("Options");
  table.add_options()("help,h", po::bool_switch(), "show this")(
      "np,n", po::value<int>()->value_name("N"), ".ranks, with a \\ backslash")(
      "dry-run", po::bool_switch(), "do nothing");
  return table;
}

std::vector<Command> two_commands() {
  return {{"run", "start a program", nullptr,
           [] { return "Usage: kolo run -np N program\n\nStarts it.\n'quoted'\n\n"; }, options},
          {"trace",
           "look at timelines",
           nullptr,
           [] { return "Usage: kolo trace merge FOLDER\n       kolo trace report FOLDER\n"; },
           {}}};
}

TEST(ManPage, HasTheOptionsOfTheTable) {
  EXPECT_EQ(man_page(two_commands()[0], "1.2"),
            ".TH KOLO\\-RUN 1 \"\" \"kolo 1.2\" \"kolo\"\n"
            ".SH NAME\nkolo\\-run \\- start a program\n"
            ".SH SYNOPSIS\n.nf\nkolo run \\-np N program\n.fi\n"
            ".SH DESCRIPTION\n.nf\nStarts it.\n\\&'quoted'\n\n.fi\n"
            ".SH OPTIONS\n"
            ".TP\n.B \\-\\-help, \\-h\nshow this\n"
            ".TP\n.B \\-\\-np, \\-n N\n\\&.ranks, with a \\e backslash\n"
            ".TP\n.B \\-\\-dry\\-run\ndo nothing\n"
            ".SH SEE ALSO\n.BR kolo (1)\n");
}

TEST(ManPage, OfACommandWithoutATable) {
  const std::string page = man_page(two_commands()[1], "1.2");
  EXPECT_THAT(page, HasSubstr("kolo trace merge FOLDER\nkolo trace report FOLDER\n"));
  EXPECT_THAT(page, Not(HasSubstr(".SH OPTIONS")));
  EXPECT_THAT(page, Not(HasSubstr(".SH DESCRIPTION")));
}

TEST(ManPage, OfKoloNamesAllCommands) {
  const std::string page = man_page_of_kolo(two_commands(), "1.2");
  EXPECT_THAT(page, HasSubstr(".BR kolo\\-run (1)\nstart a program\n"));
  EXPECT_THAT(page, HasSubstr(".BR kolo\\-trace (1)\n"));
}

TEST(BashCompletion, KnowsCommandsTheirWordsAndOptions) {
  const std::string script = bash_completion(two_commands());
  EXPECT_THAT(script, HasSubstr("'help run trace --help --version'"));
  EXPECT_THAT(script, HasSubstr("    run) words='--help --np --dry-run' ;;\n"));
  EXPECT_THAT(script, HasSubstr("    trace) words='merge report --help' ;;\n"));
}

}  // namespace
}  // namespace kolo::cli
