#include "cli/help/man_page.hpp"

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
      "dry-run", po::bool_switch(), "do nothing")(
      "bind-to", po::value<std::string>()->value_name("core|none"), "where")(
      "timeline", po::value<std::string>()->value_name("DIR"), "where");
  return table;
}

std::vector<Command> some_commands() {
  return {
      {"run",
       "start a program",
       nullptr,
       [] { return "Usage: kolo run [options] -np N program\n\nStarts it.\n'quoted'\n\n"; },
       options,
       {{"0", "all is well"}},
       {{"kolo run -np 2 ./train", "two ranks"}},
       true},
      {"trace",
       "look at timelines",
       nullptr,
       [] { return "Usage: kolo trace merge FOLDER [-o FILE]\n       kolo trace report FOLDER\n"; },
       {}},
      {"bench",
       "measure",
       nullptr,
       [] { return "Usage: kolo bench NAME [--json FILE]\n\n  idle    nothing\n"; },
       {}}};
}

TEST(ManPage, HasTheOptionsOfTheTable) {
  EXPECT_EQ(man_page(some_commands()[0], "1.2"),
            ".TH KOLO\\-RUN 1 \"\" \"kolo 1.2\" \"kolo\"\n"
            ".SH NAME\nkolo\\-run \\- start a program\n"
            ".SH SYNOPSIS\n.nf\nkolo run [options] \\-np N program\n.fi\n"
            ".SH DESCRIPTION\n.nf\nStarts it.\n\\&'quoted'\n\n.fi\n"
            ".SH OPTIONS\n"
            ".TP\n.B \\-\\-help, \\-h\nshow this\n"
            ".TP\n.B \\-\\-np, \\-n N\n\\&.ranks, with a \\e backslash\n"
            ".TP\n.B \\-\\-dry\\-run\ndo nothing\n"
            ".TP\n.B \\-\\-bind\\-to core|none\nwhere\n"
            ".TP\n.B \\-\\-timeline DIR\nwhere\n"
            ".SH EXIT STATUS\n.TP\n.B 0\nall is well\n"
            ".SH EXAMPLES\n.TP\n.B kolo run \\-np 2 ./train\ntwo ranks\n"
            ".SH SEE ALSO\n.BR kolo (1)\n");
}

TEST(ManPage, OfACommandWithoutATable) {
  const std::string page = man_page(some_commands()[1], "1.2");
  EXPECT_THAT(page, HasSubstr("kolo trace merge FOLDER [\\-o FILE]\nkolo trace report FOLDER\n"));
  EXPECT_THAT(page, Not(HasSubstr(".SH OPTIONS")));
  EXPECT_THAT(page, Not(HasSubstr(".SH DESCRIPTION")));
}

TEST(ManPage, OfKoloNamesAllCommands) {
  const std::string page = man_page_of_kolo(some_commands(), "1.2");
  EXPECT_THAT(page, HasSubstr(".BR kolo\\-run (1)\nstart a program\n"));
  EXPECT_THAT(page, HasSubstr(".BR kolo\\-trace (1)\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n.TP\n.B 0\nall is well\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLES\n.TP\n.B kolo doctor\n"));
}

TEST(BashCompletion, KnowsCommandsTheirWordsAndOptions) {
  const std::string script = bash_completion(some_commands());
  EXPECT_THAT(script, HasSubstr("'help run trace bench --help --version'"));
  EXPECT_THAT(script,
              HasSubstr("    run) words='' options='--bind-to --dry-run --help --np --timeline' "
                        "valued='--bind-to --np --timeline -n -np' program=yes files=yes ;;\n"));
  EXPECT_THAT(script, HasSubstr("    trace) words='merge report' options='--help' valued='-o' "
                                "program=no files=yes ;;\n"));
  EXPECT_THAT(script, HasSubstr("    bench) words='idle' options='--help --json' valued='--json' "
                                "program=no files=no ;;\n"));
}

TEST(BashCompletion, KnowsValues) {
  const std::string script = bash_completion(some_commands());
  EXPECT_THAT(script, HasSubstr("'run --bind-to') how=(-W 'core none') ;;\n"));
  EXPECT_THAT(script, HasSubstr("'run --timeline') how=(-d) ;;\n"));
  EXPECT_THAT(script, HasSubstr("'trace -o') how=(-f) ;;\n"));
  EXPECT_THAT(script, Not(HasSubstr("'run --np')")));
}

}  // namespace
}  // namespace kolo::cli
