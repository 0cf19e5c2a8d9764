#include "benchmarks/gloo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "one_rank.hpp"
#include "temporary_folder.hpp"

namespace kolo::bench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Shell programs stand in for Python: `$1 -c SCRIPT 0 1 DESCRIPTOR BYTES SECONDS`.
class BenchGloo : public testing::Test {
 protected:
  // A Python whose answers are the usual ones, but for those of `cases`.
  std::string python(const std::string& cases = "") {
    const std::string path = folder_ / "python";
    std::ofstream(path) << "#!/bin/sh\n"
                           "memory=/proc/self/fd/$6\n"
                           "while read -r word rest; do case $word in\n"
                        << cases
                        << "\nstart) echo torch 9.9;; store) echo port 4711;;\n"
                           "join) echo \"$rest\" > \"${0%python}joined\"; echo joined;;\n"
                           "work) echo \"$rest\" > \"${0%python}work\"; echo tried;;\n"
                           "model) echo \"$rest\" > \"${0%python}model\"; echo made;;\n"
                           "load) echo loaded;; run) echo ran 1000 1000 3500;; esac; done\n";
    EXPECT_EQ(chmod(path.c_str(), 0755), 0);
    return path;
  }

  std::string written(const std::string& name) const {
    std::string line;
    std::ifstream file(folder_ / name);
    std::getline(file, line);
    return line;
  }

  std::string problem_of_start(const std::string& program, double deadline_seconds = 30) {
    try {
      Gloo(ranks_, program, "localhost", 64, deadline_seconds);
    } catch (const RunFailed& failed) {
      return failed.what();
    }
    return "none";
  }

  // What ends the measurement of one sample.
  std::string problem_of_sample(const std::string& program, Operation operation,
                                double deadline_seconds = 30) {
    Gloo gloo(ranks_, program, "localhost", 64, deadline_seconds);
    return problem_of_sample(gloo.offer(exchange_of(operation, 4, 0, 1)).contender);
  }
  std::string problem_of_backward(const std::string& program) {
    Gloo gloo(ranks_, program, "localhost", elements_of(model_));
    return problem_of_sample(gloo.data_parallel(model_));
  }
  std::string problem_of_sample(std::unique_ptr<Contender> contender) {
    Contenders contenders;
    contenders.push_back(std::move(contender));
    try {
      measure(ranks_, contenders, {0, 1});
    } catch (const RunFailed& failed) {
      return failed.what();
    }
    return "none";
  }

  const testing_support::TemporaryFolder folder_;
  OneRank ranks_;
  const std::vector<Parameter> model_ = {{"weight", {2, 2}}, {"bias", {3}}};
};

TEST_F(BenchGloo, StartsAndJoins) {
  const Gloo gloo(ranks_, python(), "node7", 64);
  EXPECT_EQ(gloo.torch_version(), "9.9");
  EXPECT_EQ(written("joined"), "node7 4711");
}

TEST_F(BenchGloo, GivesTheScriptAndItsArguments) {
  python();
  std::ofstream(folder_ / "python")
      << "#!/bin/sh\ncase $3 in *'import torch'*) s=script;; esac\n"
         "echo \"$1|$2|$s|$4|$5|$7|$8\" > \"${0%python}arguments\"\nexit 1\n";
  problem_of_start(folder_ / "python", 7);
  EXPECT_EQ(written("arguments"), "-u|-c|script|0|1|256|7.000000");
}

TEST_F(BenchGloo, TakesTheChildsOwnTime) {
  Gloo gloo(ranks_, python(), "localhost", 64);
  Contenders contenders;
  // One rank has its own sum.
  contenders.push_back(gloo.offer(exchange_of(Operation::kAllreduce, 4, 0, 1)).contender);
  EXPECT_EQ(contenders.front()->name(), "gloo");
  const std::vector<Sample> samples = measure(ranks_, contenders, {1, 2}).front();
  ASSERT_EQ(samples.size(), 2U);
  for (const Sample& sample : samples) EXPECT_EQ(sample.microseconds, 2.5);
}

TEST_F(BenchGloo, DescribesTheWork) {
  Gloo gloo(ranks_, python(), "localhost", 64);
  ASSERT_TRUE(gloo.offer(exchange_of(Operation::kAlltoall, 5, 1, 2)).contender);
  EXPECT_EQ(written("work"), "alltoall 5 4 3,2 2,2");
  ASSERT_TRUE(gloo.offer(exchange_of(Operation::kBroadcast, 5, 1, 2)).contender);
  EXPECT_EQ(written("work"), "broadcast 5 0 - -");
}

TEST_F(BenchGloo, DescribesTheModel) {
  Gloo gloo(ranks_, python(), "localhost", 64);
  const std::unique_ptr<Contender> contender = gloo.data_parallel(model_);
  EXPECT_EQ(written("model"), "2x2,3");
  EXPECT_EQ(contender->name(), "ddp-gloo");
  EXPECT_EQ(contender->placement(), "unbound");
}

TEST_F(BenchGloo, GradientsAreReadFromTheSharedMemory) {
  // One rank's own inputs are the sums.
  EXPECT_EQ(problem_of_backward(python()), "none");
  const std::string overwrite =
      "run) printf 7777 | dd of=$memory bs=4 seek=5 conv=notrunc 2> /dev/null; echo ran 1 1 2;;";
  EXPECT_THAT(problem_of_backward(python(overwrite)),
              HasSubstr("wrong result of contender ddp-gloo: element 1 of the gradient of 'bias' "
                        "on rank 0"));
}

TEST_F(BenchGloo, AModelThatCannotBeMadeEndsTheRun) {
  Gloo gloo(ranks_, python("model) echo no DistributedDataParallel >&2; exit 1;;"), "localhost",
            64);
  try {
    gloo.data_parallel(model_);
    FAIL() << "no exception";
  } catch (const RunFailed& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("no DistributedDataParallel"));
  }
}

TEST_F(BenchGloo, AnOperationThatIsMissingIsNoError) {
  Gloo gloo(ranks_, python("work) echo tried gloo does not support this;;"), "localhost", 64);
  const Gloo::Offer offer = gloo.offer(exchange_of(Operation::kAlltoall, 4, 0, 1));
  EXPECT_FALSE(offer.contender);
  EXPECT_EQ(offer.missing, "gloo does not support this");
}

TEST_F(BenchGloo, AResultThatWasNotWrittenIsWrong) {
  EXPECT_THAT(problem_of_sample(python(), Operation::kAllgather),
              HasSubstr("wrong result of contender gloo: element 0 of the result of allgather"));
}

TEST_F(BenchGloo, ResultsAreReadFromTheSharedMemory) {
  // The output follows the input of 16 bytes.
  const std::string copy =
      "run) dd if=$memory of=$memory bs=16 count=1 seek=1 conv=notrunc 2> /dev/null; echo ran 1 1 "
      "2;;";
  EXPECT_EQ(problem_of_sample(python(copy), Operation::kAllgather), "none");
}

TEST_F(BenchGloo, NoTorchNamesPythonRankAndWhatItSaid) {
  const std::string program = python("start) echo \"No module named 'torch'\" >&2; exit 1;;");
  EXPECT_EQ(problem_of_start(program), program +
                                           " of rank 0 exited with code 1; its last words:\n"
                                           "  No module named 'torch'");
  EXPECT_THAT(problem_of_start("/no/python"),
              HasSubstr("/no/python of rank 0 cannot be started: No such file"));
}

TEST_F(BenchGloo, EveryWaitHasADeadline) {
  for (const std::string word : {"start", "store", "join"}) {
    EXPECT_THAT(problem_of_start(python(word + ") sleep 100;;"), 0.3),
                HasSubstr("did not answer '" + word));
  }
  for (const std::string line : {"load", "run 1"}) {
    const std::string word = line.substr(0, line.find(' '));
    EXPECT_THAT(problem_of_sample(python(word + ") sleep 100;;"), Operation::kAllreduce, 0.3),
                HasSubstr("did not answer '" + line + "' within 0.3 s"));
  }
}

TEST_F(BenchGloo, AnErrorInTheMidstEndsTheRun) {
  EXPECT_THAT(problem_of_sample(python("run) echo lost rank 1 >&2; exit 1;;"), Operation::kBarrier),
              testing::AllOf(HasSubstr("contender gloo failed: "), HasSubstr("exited with code 1"),
                             HasSubstr("lost rank 1")));
  EXPECT_THAT(problem_of_sample(python("run) echo ran away;;"), Operation::kAllreduce),
              HasSubstr("without times"));
}

// Another rank's child could not be started.
class UnluckyPeer final : public OneRank {
 public:
  void largest(double* values, int /*count*/) override { values[0] = 1; }
};

TEST_F(BenchGloo, ErrorOnAnotherRankEndsTheRunHereInSilence) {
  UnluckyPeer ranks;
  try {
    Gloo(ranks, python(), "localhost", 64);
    FAIL() << "no exception";
  } catch (const RunFailed& failed) {
    EXPECT_STREQ(failed.what(), "");
  }
}

}  // namespace
}  // namespace kolo::bench
