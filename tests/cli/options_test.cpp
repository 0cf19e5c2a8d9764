#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "cli/run/run_options.hpp"
#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

using testing::ElementsAre;

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : name_(testing::TempDir() + "kolo_options_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::ofstream(name_) << text;
  }
  ~ConfigFile() { std::remove(name_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
};

TEST(RunOptions, KnowsAllSpellingsOfTheNumberOfRanks) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-np", "4", "p"},
                                                {"-n", "4", "p"},
                                                {"-n4", "p"},
                                                {"--np", "4", "p"},
                                                {"--np=4", "p"},
                                                {"-np=4", "p"}}) {
    const RunOptions options = parse_run(words);
    EXPECT_EQ(options.size, 4) << words[0];
    EXPECT_THAT(options.program, ElementsAre("p")) << words[0];
  }
}

TEST(RunOptions, LeavesTheProgramItsOptions) {
  const RunOptions options =
      parse_run({"-np", "2", "--verbose", "prog", "-np", "8", "--verbose", "--", "--unknown"});
  EXPECT_EQ(options.size, 2);
  EXPECT_THAT(options.program, ElementsAre("prog", "-np", "8", "--verbose", "--", "--unknown"));
}

TEST(RunOptions, TakesDashesAsTheEndOfOptions) {
  EXPECT_THAT(parse_run({"-n", "1", "--", "-odd-name", "x"}).program,
              ElementsAre("-odd-name", "x"));
}

TEST(RunOptions, CollectsVariables) {
  EXPECT_THAT(parse_run({"-n", "1", "-x", "A=1", "--env", "B", "--env=C=2", "p"}).variables,
              ElementsAre("A=1", "B", "C=2"));
}

TEST(RunOptions, RefusesWhatItDoesNotKnow) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--frobnicate", "p"},
                                                {"--verb", "p"},
                                                {"-np", "x", "p"},
                                                {"-np"},
                                                {"-n", "1"},
                                                {"-n", "1", "--timeout", "-1", "p"},
                                                {"-n", "1", "--timeout", "nan", "p"},
                                                {"-n", "1", "--timeout", "1e10", "p"},
                                                {"-n", "1", "--stop-timeout", "-1", "p"},
                                                {"-n", "1", "--stop-timeout", "1e10", "p"},
                                                {"-n", "1", "--threads-per-rank", "-1", "p"},
                                                {"-H", "a", "--hostfile", "f", "p"},
                                                {"-n", "1", "-n", "2", "p"}}) {
    EXPECT_THROW((void)parse_run(words), UsageError) << words[0];
  }
}

TEST(RunOptions, NeedNoProgramForHelp) {
  EXPECT_TRUE(parse_run({"--help"}).help);
}

TEST(RunOptions, ReadAConfigurationFileBelowTheCommandLine) {
  const ConfigFile file(
      "# a job\nnp = 8\ntimestamp = true\nhost = a:4,b:4\nenv = X=1\nenv = Y=2\n");
  const RunOptions options =
      parse_run({"-np", "2", "-x", "Z=3", "--config-file", file.name(), "p"});
  EXPECT_EQ(options.size, 2);
  EXPECT_TRUE(options.timestamp);
  EXPECT_EQ(options.host_list, "a:4,b:4");
  EXPECT_THAT(options.variables, testing::UnorderedElementsAre("Z=3", "X=1", "Y=2"));
}

TEST(RunOptions, RefuseABadConfigurationFile) {
  const ConfigFile file("frobnicate = 8\n");
  EXPECT_THROW((void)parse_run({"-n", "1", "--config-file", file.name(), "p"}), UsageError);
  EXPECT_THROW((void)parse_run({"-n", "1", "--config-file", "/nowhere/x.ini", "p"}), UsageError);
}

TEST(SplitWords, WorksAsAShellDoes) {
  EXPECT_THAT(split_words("  a  b\tc "), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split_words("--mca btl '^tcp,self' \"x y\" a\\ b ''"),
              ElementsAre("--mca", "btl", "^tcp,self", "x y", "a b", ""));
  EXPECT_THAT(split_words(""), ElementsAre());
  EXPECT_THROW((void)split_words("'a"), UsageError);
}

}  // namespace
}  // namespace kolo::cli
