#include "benchmarks/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::bench {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

std::string problem_of(const Words& words) {
  try {
    parse_options(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(BenchOptions, Defaults) {
  const Options options = parse_options({"allreduce"});
  EXPECT_EQ(options.benchmark, "allreduce");
  EXPECT_EQ(options.min_bytes, 4);
  EXPECT_EQ(options.max_bytes, 268435456);
  EXPECT_EQ(options.samples, 0);
  EXPECT_EQ(options.json, "");
  EXPECT_FALSE(options.help);
  EXPECT_EQ(parse_options({"gradients"}).model, "resnet50");
}

TEST(BenchOptions, AreRead) {
  const Options options = parse_options({"allreduce", "--min-bytes", "8", "--max-bytes=4096",
                                         "--samples", "7", "--warm-up", "0", "--json", "f"});
  EXPECT_EQ(options.min_bytes, 8);
  EXPECT_EQ(options.max_bytes, 4096);
  EXPECT_EQ(options.samples, 7);
  EXPECT_EQ(options.warm_up, 0);
  EXPECT_EQ(options.json, "f");
}

TEST(BenchOptions, CallsInARow) {
  EXPECT_EQ(parse_options({"allreduce"}).calls, 16);
  EXPECT_EQ(parse_options({"operations", "--calls", "1"}).calls, 1);
  EXPECT_THAT(problem_of({"tune", "--calls", "0"}), HasSubstr("--calls must be at least 1"));
  EXPECT_THAT(problem_of({"gradients", "--calls", "1"}), HasSubstr("calls"));
}

TEST(BenchOptions, OfAllocate) {
  EXPECT_EQ(parse_options({"allocate"}).min_bytes, 65536);
  EXPECT_EQ(parse_options({"allocate"}).max_bytes, 67108864);
  EXPECT_THAT(problem_of({"allocate", "--python", "p"}), HasSubstr("python"));
}

TEST(BenchOptions, OfOperations) {
  const Options all = parse_options({"operations"});
  EXPECT_EQ(all.max_bytes, 67108864);
  EXPECT_EQ(all.only, all_operations());
  const Options some = parse_options(
      {"operations", "--only", "barrier,alltoall", "--python", "/opt/python", "--max-bytes", "64"});
  EXPECT_THAT(some.only, testing::ElementsAre(Operation::kBarrier, Operation::kAlltoall));
  EXPECT_EQ(some.python, "/opt/python");
  EXPECT_EQ(some.max_bytes, 64);
  EXPECT_THAT(problem_of({"operations", "--only", "barrier,nothing"}),
              HasSubstr("no operation 'nothing'; there are allreduce, grouped_allreduce,"));
  EXPECT_THAT(problem_of({"operations", "--only", ""}), HasSubstr("no operation ''"));
  EXPECT_THAT(problem_of({"operations", "--only", "barrier,"}), HasSubstr("no operation ''"));
  EXPECT_THAT(problem_of({"operations", "--model", "resnet50"}), HasSubstr("model"));
}

TEST(BenchOptions, PythonIsForThoseThatHaveRivalsThere) {
  for (const std::string benchmark : {"allreduce", "gradients", "loading", "operations"}) {
    EXPECT_EQ(parse_options({benchmark}).python, "");
    EXPECT_EQ(parse_options({benchmark, "--python", "/opt/python"}).python, "/opt/python");
    EXPECT_THAT(problem_of({benchmark, "--python", ""}), HasSubstr("--python needs"));
  }
  for (const std::string benchmark : {"device", "idle", "optimizer", "small", "train", "tune"})
    EXPECT_THAT(problem_of({benchmark, "--python", "p"}), HasSubstr("python"));
}

TEST(BenchOptions, HelpGoesBeforeAllElse) {
  EXPECT_THAT(parse_options({"--help"}).help.value(), HasSubstr("gradients"));
  EXPECT_THAT(parse_options({"operations", "--help"}).help.value(), HasSubstr("sendrecv"));
  EXPECT_THAT(parse_options({"allreduce", "--min-bytes", "3", "--help"}).help.value(),
              HasSubstr("--max-bytes"));
}

TEST(BenchOptions, MistakesAreNamed) {
  EXPECT_THAT(problem_of({}), HasSubstr("which benchmark"));
  EXPECT_THAT(problem_of({"nothing"}), HasSubstr("'nothing'"));
  EXPECT_THAT(problem_of({"--samples", "3"}), HasSubstr("'--samples'"));
  EXPECT_THAT(problem_of({"allreduce", "--model", "resnet50"}), HasSubstr("model"));
  EXPECT_THAT(problem_of({"gradients", "--model", "resnet999"}),
              HasSubstr("known: resnet50, gpt2, mnist, tiny1000"));
  EXPECT_THAT(problem_of({"allreduce", "surplus"}), testing::Not("none"));
  EXPECT_THAT(problem_of({"allreduce", "--samples", "many"}), HasSubstr("many"));
  EXPECT_THAT(problem_of({"allreduce", "--samples", "-1"}), HasSubstr("--samples must be"));
  EXPECT_THAT(problem_of({"allreduce", "--warm-up", "-1"}), HasSubstr("--warm-up must be"));
  EXPECT_THAT(problem_of({"allreduce", "--json="}), HasSubstr("json"));
}

TEST(BenchOptions, SizesOutOfRange) {
  EXPECT_THAT(problem_of({"allreduce", "--min-bytes", "0"}), HasSubstr("--min-bytes must be"));
  EXPECT_THAT(problem_of({"allreduce", "--min-bytes", "-4"}), HasSubstr("--min-bytes must be"));
  EXPECT_THAT(problem_of({"allreduce", "--min-bytes", "6"}), HasSubstr("multiple of 4"));
  EXPECT_THAT(problem_of({"allreduce", "--min-bytes", "64", "--max-bytes", "32"}),
              HasSubstr("--max-bytes must be"));
  EXPECT_THAT(problem_of({"allreduce", "--max-bytes", "99999999999"}), HasSubstr("at most"));
  EXPECT_THAT(problem_of({"allreduce", "--max-bytes", "99999999999999999999"}),
              testing::Not("none"));
}

TEST(BenchOptions, CheckpointStatesAreMadeOfEqualTensors) {
  const Options options = parse_options({"checkpoint"});
  EXPECT_EQ(options.bytes, 1'000'000'000);
  EXPECT_EQ(options.warm_up, 1);
  EXPECT_EQ(parse_options({"checkpoint", "--bytes", "80", "--tensors", "10"}).tensors, 10);
  for (const char* bytes : {"0", "-40", "41", "36", "20"})
    EXPECT_THROW(parse_options({"checkpoint", "--bytes", bytes, "--tensors", "10"}), UsageError)
        << bytes;
  EXPECT_THROW(parse_options({"checkpoint", "--tensors", "0"}), UsageError);
  EXPECT_THROW(parse_options({"checkpoint", "--folder", ""}), UsageError);
  EXPECT_THROW(parse_options({"allreduce", "--bytes", "80"}), UsageError);
}

}  // namespace
}  // namespace kolo::bench
