// A signal to one rank reaches all. It cannot be taken back, so this has a process of its own.
#include <kolo/stop.h>
#include <unistd.h>

#include <csignal>

#include "torch_ops/fixture.hpp"

namespace kolo::testing_support {
namespace {

class Stop : public WithKolo {};

TEST_F(Stop, OfTheLastRankIsNoticedByAll) {
  catch_stop_signals();
  catch_stop_signals();
  EXPECT_FALSE(stop_requested());
  if (rank() == size() - 1) {
    ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
  }
  EXPECT_TRUE(stop_requested());
  EXPECT_TRUE(stop_requested());
}

}  // namespace
}  // namespace kolo::testing_support
