#include "timeline/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace kolo::timeline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

OperationEvent named(const std::string& name, Nanoseconds submitted) {
  OperationEvent event;
  event.name = Name(name);
  event.submitted = submitted;
  return event;
}

Recorder::Place add(Recorder::Pen& pen, const OperationEvent& event) {
  const Recorder::Place place = pen.begin();
  pen.at(place) = event;
  return place;
}

std::vector<std::string> names(const Recorder& recorder) {
  std::vector<std::string> all;
  for (const OperationEvent& event : recorder.copy()) all.emplace_back(event.name.view());
  return all;
}

TEST(ShortText, KeepsBothEndsOfWhatIsTooLong) {
  EXPECT_EQ(ShortText<8>("").view(), "");
  EXPECT_EQ(ShortText<8>("12345678").view(), "12345678");
  EXPECT_EQ(ShortText<8>("123456789").view(), "12...789");
}

TEST(Recorder, KeepsTheLastOnesInOrder) {
  Recorder recorder(3);
  EXPECT_THAT(names(recorder), IsEmpty());
  {
    Recorder::Pen pen(recorder);
    for (int i = 1; i <= 5; ++i)
      pen.at(add(pen, named(std::to_string(i), i))).state =
          i % 2 == 0 ? State::kDone : State::kFailed;
  }
  EXPECT_THAT(names(recorder), ElementsAre("3", "4", "5"));
}

// What is looked for when a job hangs.
TEST(Recorder, KeepsWhatIsUnderWay) {
  Recorder recorder(3);
  Recorder::Place waits = Recorder::kNowhere;
  {
    Recorder::Pen pen(recorder);
    waits = add(pen, named("waits", 1));
    for (int i = 2; i <= 9; ++i) pen.at(add(pen, named(std::to_string(i), i))).state = State::kDone;
  }
  EXPECT_THAT(names(recorder), ElementsAre("waits", "8", "9"));
  {
    Recorder::Pen pen(recorder);
    EXPECT_EQ(pen.at(waits).name.view(), "waits");
    pen.at(waits).state = State::kDone;
    for (int i = 10; i <= 12; ++i)
      pen.at(add(pen, named(std::to_string(i), i))).state = State::kDone;
  }
  EXPECT_THAT(names(recorder), ElementsAre("10", "11", "12"));
}

TEST(Recorder, LeavesOutWhatItHasNoRoomFor) {
  Recorder recorder(2);
  {
    Recorder::Pen pen(recorder);
    EXPECT_NE(add(pen, named("a", 1)), Recorder::kNowhere);
    EXPECT_NE(add(pen, named("b", 2)), Recorder::kNowhere);
    const Recorder::Place third = add(pen, named("c", 3));
    EXPECT_EQ(third, Recorder::kNowhere);
    pen.at(third).state = State::kDone;  // does no harm
  }
  EXPECT_THAT(names(recorder), ElementsAre("a", "b"));
}

TEST(Recorder, IsReadWhileItIsWritten) {
  Recorder recorder(100);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 1; !stop; ++i) {
      Recorder::Pen pen(recorder);
      OperationEvent& event = pen.at(add(pen, named("x", i)));
      event.ended = i;
      event.state = State::kDone;
    }
  });
  for (int i = 0; i < 200; ++i) {
    for (const OperationEvent& event : recorder.copy()) EXPECT_EQ(event.submitted, event.ended);
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace kolo::timeline
