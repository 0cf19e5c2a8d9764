#include "cli/run/launcher_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kDashes(60, '-');

TEST(FailureBanner, OfOpenMpi5IsKnown) {
  const std::string exited =
      kDashes +
      "\nprterun detected that one or more processes exited with non-zero status,\n"
      "thus causing the job to be terminated. The first process to do so was:\n";
  EXPECT_TRUE(is_failure_banner(exited));
  const std::string killed =
      "prterun noticed that process rank 1 with PID 4289 on node vm exited on\nsignal 9 "
      "(Killed).\n";
  EXPECT_TRUE(is_failure_banner(killed));
  ASSERT_TRUE(launcher_report(killed));
  EXPECT_EQ(launcher_report(killed)->rank, 1);
  EXPECT_EQ(launcher_report(killed)->what, "was killed by signal 9 (SIGKILL)");
}

TEST(FailureBanner, OfMpiAbortIsKnown) {
  for (const char* text :
       {"MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n  Proc: [[46493,1],1]\n"
        "  Errorcode: 7\n",
        "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 7.\n"}) {
    EXPECT_TRUE(is_failure_banner(text));
    ASSERT_TRUE(launcher_report(text)) << text;
    EXPECT_EQ(launcher_report(text)->what, "called MPI_Abort with code 7");
    EXPECT_TRUE(launcher_report(text)->is_abort);
  }
}

TEST(FailureBanner, OfAnEarlyExitIsKnown) {
  const std::string text =
      "orterun has exited due to process rank 3 with PID 0 on\nnode vm exiting improperly. There "
      "are\n";
  ASSERT_TRUE(launcher_report(text));
  EXPECT_EQ(launcher_report(text)->rank, 3);
  EXPECT_EQ(launcher_report(text)->what, "ended without MPI_Finalize");
}

TEST(FailureBanner, IsNotALostNodeOrAWarning) {
  for (const char* text :
       {"ORTE has lost communication with a remote daemon.\n", "WARNING: no CUDA\n", ""}) {
    EXPECT_FALSE(is_failure_banner(text));
    EXPECT_FALSE(launcher_report(text));
  }
  EXPECT_FALSE(
      launcher_report("MPI_ABORT was invoked on rank 99999999999999999999 in communicator"));
}

class LauncherTextTest : public testing::Test {
 protected:
  Clock::time_point at(double time) const { return start_ + seconds(time); }
  const Clock::time_point start_ = Clock::now();
  LauncherText text_;
};

TEST_F(LauncherTextTest, IsHeldBackForAMoment) {
  text_.add("warning", at(0));
  EXPECT_THAT(text_.take(at(0.1), false), IsEmpty());
  EXPECT_EQ(text_.next(), at(0.5));
  EXPECT_THAT(text_.take(at(0.6), false), ElementsAre("warning\n"));
  EXPECT_EQ(text_.next(), std::nullopt);
}

TEST_F(LauncherTextTest, KeepsABannerTogether) {
  for (const std::string& line : {kDashes, std::string("a"), std::string("b"), kDashes, kDashes}) {
    text_.add(line, at(0));
  }
  text_.add("c", at(0));
  text_.add(kDashes, at(0));
  EXPECT_THAT(text_.take(at(1), false), ElementsAre(kDashes + "\na\nb\n" + kDashes + "\n",
                                                    kDashes + "\nc\n" + kDashes + "\n"));
}

TEST_F(LauncherTextTest, ShowsABannerThatNeverEnds) {
  text_.add(kDashes, at(0));
  text_.add("a", at(0));
  EXPECT_THAT(text_.take(at(1), false), IsEmpty());
  EXPECT_THAT(text_.take(at(3), false), ElementsAre(kDashes + "\na\n"));
  text_.add(kDashes, at(3));
  EXPECT_THAT(text_.take(at(3), true), ElementsAre(kDashes + "\n"));
}

TEST_F(LauncherTextTest, RemembersTheRankThatTheLauncherNames) {
  text_.add(kDashes, at(0));
  text_.add("prterun noticed that process rank 1 with PID 42 on node vm exited on", at(0));
  text_.add("signal 9 (Killed).", at(0));
  text_.add(kDashes, at(0));
  ASSERT_TRUE(text_.report());
  EXPECT_EQ(text_.report()->rank, 1);
}

TEST_F(LauncherTextTest, DropsZeroBytes) {
  text_.add(std::string(1, '\0'), at(0));
  text_.add(std::string("a\0b", 3), at(0));
  EXPECT_THAT(text_.take(at(0), true), ElementsAre("ab\n"));
}

}  // namespace
}  // namespace kolo::cli
