// What the flight recorder and the timeline hear of what a device does.
#include <gmock/gmock.h>

#include <map>

#include "collectives/nccl/timing.hpp"
#include "gpu/device_fixture.hpp"
#include "temporary_folder.hpp"
#include "timeline/writer.hpp"

namespace kolo {
namespace {

using timeline::OperationEvent;
using timeline::State;

constexpr auto kLate = std::chrono::milliseconds(600);
// Half of it: clocks are compared with an error where this machine is busy.
constexpr Nanoseconds kRatherLate = 300'000'000;

// The last one of each name; buckets as "bucket".
std::map<std::string, OperationEvent> recorded(Engine& engine) {
  std::map<std::string, OperationEvent> last;
  for (const OperationEvent& event : engine.tracing().recorder().copy())
    last[event.members > 0 ? "bucket" : std::string(event.name.view())] = event;
  return last;
}

void start_timeline(Engine& engine, const std::string& folder) {
  std::unique_ptr<timeline::TraceFile> file;
  ASSERT_TRUE(timeline::TraceFile::open(folder, engine.rank(), file).is_ok());
  engine.tracing().start(std::move(file), {}, [] {});
}

// Lets the device go on after a while; gives when.
std::shared_ptr<std::atomic<Nanoseconds>> release_late(
    DeviceProgram& program, const std::shared_ptr<std::atomic<bool>>& may_go_on) {
  auto released = std::make_shared<std::atomic<Nanoseconds>>(0);
  program.later([may_go_on, released] {
    std::this_thread::sleep_for(kLate);
    *released = nanoseconds(Clock::now());
    *may_go_on = true;
  });
  return released;
}

// wait() returns when it is enqueued; what a hanging device has not done is seen as such.
TEST(DeviceRecord, AnOperationEndsWhenTheDeviceHasDoneIt) {
  on_all_devices(2, [](DeviceProgram& program) {
    DeviceTensor<float> tensor(100);
    const auto may_go_on = program.block();
    const auto operation = program.submit(device_operation(OpKind::kAllreduce, "x", tensor));
    ASSERT_TRUE(program.wait(operation).is_ok());
    EXPECT_EQ(recorded(program.engine()).at("x").state, State::kStarted);
    EXPECT_EQ(recorded(program.engine()).at("x").ended, timeline::kNever);
    *may_go_on = true;
    const Nanoseconds released = nanoseconds(Clock::now());
    EXPECT_TRUE(program.engine().shut_down());
    const OperationEvent event = recorded(program.engine()).at("x");
    EXPECT_EQ(event.state, State::kDone);
    EXPECT_GE(event.ended, released);
    EXPECT_EQ(event.data_ready, timeline::kNever) << "no timeline, no times";
    EXPECT_EQ(program.engine().tracing().load.running, 0U);
    EXPECT_EQ(program.engine().tracing().load.bytes, 0U);
  });
}

// The data of the last step come late: that is where its time goes.
TEST(DeviceRecord, ATimelineHasTheDevicesTimes) {
  const testing_support::TemporaryFolder folder;
  on_all_devices(2, [&folder](DeviceProgram& program) {
    start_timeline(program.engine(), folder.path());
    DeviceTensor<float> one(3000);
    DeviceTensor<float> other(5000);
    constexpr int kSteps = 6;
    std::shared_ptr<std::atomic<Nanoseconds>> released;
    for (int step = 1; step <= kSteps; ++step) {
      one.fill_late(program, std::vector<float>(3000, 1));
      other.fill_late(program, std::vector<float>(5000, 1));
      program.synchronize();
      if (step == kSteps) released = release_late(program, program.block());
      const auto first = program.submit(device_operation(OpKind::kAllreduce, "one", one));
      const auto second = program.submit(device_operation(OpKind::kAllreduce, "other", other));
      ASSERT_TRUE(program.wait(first).is_ok());
      ASSERT_TRUE(program.wait(second).is_ok());
    }
    EXPECT_TRUE(program.engine().shut_down());
    const OperationEvent event = recorded(program.engine()).at("bucket");
    EXPECT_EQ(event.state, State::kDone);
    EXPECT_LT(event.started, *released) << "enqueuing does not wait";
    EXPECT_GT(event.data_ready - event.started, kRatherLate);
    EXPECT_LT(event.ended - event.data_ready, kRatherLate);
    EXPECT_LE(event.data_ready, event.packed);
    EXPECT_LE(event.packed, event.begun);
    EXPECT_LE(event.begun, event.reduced);
    EXPECT_LE(event.reduced, event.ended);
    EXPECT_LE(event.ended, nanoseconds(Clock::now()));
  });
}

// The second collective's data are there at once, but a rank comes late to the first.
TEST(DeviceRecord, ACollectiveBeginsWhenTheOneBeforeHasEnded) {
  const testing_support::TemporaryFolder folder;
  on_all_devices(2, [&folder](DeviceProgram& program) {
    start_timeline(program.engine(), folder.path());
    DeviceTensor<float> slow(10);
    DeviceTensor<float> quick(10);
    // The clocks have been compared before it counts.
    ASSERT_TRUE(
        program.wait(program.submit(device_operation(OpKind::kAllreduce, "a", quick))).is_ok());
    program.synchronize();
    cudaStream_t other = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0), cudaSuccess);
    if (program.rank() == 1) release_late(program, program.block());
    const auto first = program.submit(device_operation(OpKind::kAllreduce, "slow", slow));
    ASSERT_TRUE(program.engine().wait(first, std::chrono::seconds(30)).is_ok());
    const auto second = program.submit(device_operation(OpKind::kAllreduce, "quick", quick), other);
    ASSERT_TRUE(program.engine().wait(second, std::chrono::seconds(30)).is_ok());
    EXPECT_TRUE(program.engine().shut_down());
    cudaStreamDestroy(other);
    const OperationEvent event = recorded(program.engine()).at("quick");
    if (program.rank() == 0) {
      EXPECT_LT(event.data_ready - event.started, kRatherLate);
      EXPECT_GT(event.begun - event.data_ready, kRatherLate);
    }
    EXPECT_LT(event.ended - event.begun, kRatherLate);
    EXPECT_EQ(event.packed, timeline::kNever) << "it was reduced where it lies";
  });
}

// Tensors of a group go one after the other.
TEST(DeviceRecord, AGroupHasTheTimesOfAllItsTensors) {
  const testing_support::TemporaryFolder folder;
  on_all_devices(2, [&folder](DeviceProgram& program) {
    start_timeline(program.engine(), folder.path());
    DeviceTensor<float> first(10);
    DeviceTensor<double> second(20);
    for (int step = 0; step < 3; ++step) {
      program.synchronize();
      auto operation = device_operation(OpKind::kAllreduce, "group", first);
      operation->descriptor.tensors.push_back({DType::kFloat64, {20}});
      operation->tensors.push_back({second.data(), 0});
      ASSERT_TRUE(program.wait(program.submit(operation)).is_ok());
    }
    EXPECT_TRUE(program.engine().shut_down());
    const OperationEvent event = recorded(program.engine()).at("group");
    EXPECT_LE(event.started, event.data_ready);
    EXPECT_LE(event.data_ready, event.begun);
    EXPECT_LE(event.begun, event.ended);
  });
}

// The program may capture a graph while times are read.
TEST(DeviceRecord, ACaptureDoesNotTakeTheTimesAway) {
  const testing_support::TemporaryFolder folder;
  std::atomic<int> enqueued{0};
  on_all_devices(2, [&](DeviceProgram& program) {
    start_timeline(program.engine(), folder.path());
    DeviceTensor<float> tensor(10);
    ASSERT_TRUE(
        program.wait(program.submit(device_operation(OpKind::kAllreduce, "a", tensor))).is_ok());
    program.synchronize();
    const auto may_go_on = program.block();
    ASSERT_TRUE(
        program.wait(program.submit(device_operation(OpKind::kAllreduce, "x", tensor))).is_ok());
    ++enqueued;
    while (enqueued < 2) std::this_thread::yield();
    fake_gpu::capture(true);
    *may_go_on = true;
    EXPECT_TRUE(program.engine().shut_down());
    EXPECT_NE(recorded(program.engine()).at("x").begun, timeline::kNever);
  });
  fake_gpu::capture(false);
}

TEST(DeviceRecord, EventsAreUsedAgainForWhatTheyWere) {
  const auto events = std::make_shared<nccl::Events>(0);
  for (const auto kind : {nccl::Events::Kind::kTimed, nccl::Events::Kind::kUntimed}) {
    std::shared_ptr<nccl::Point> point;
    ASSERT_TRUE(events->record(nullptr, point, kind).is_ok());
    const cudaEvent_t first = point->event();
    const auto other = kind == nccl::Events::Kind::kTimed ? nccl::Events::Kind::kUntimed
                                                          : nccl::Events::Kind::kTimed;
    point.reset();
    std::shared_ptr<nccl::Point> another;
    ASSERT_TRUE(events->record(nullptr, another, other).is_ok());
    EXPECT_NE(another->event(), first);
    ASSERT_TRUE(events->record(nullptr, point, kind).is_ok());
    EXPECT_EQ(point->event(), first);
  }
  fake_gpu::drain(nullptr);
}

// Clocks are compared again and again; each comparison serves for what comes after it.
TEST(DeviceRecord, TheDevicesClockStaysThatOfTheHost) {
  const auto events = std::make_shared<nccl::Events>(0);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  {
    nccl::Timing timing(events);
    std::shared_ptr<nccl::Point> point;
    ASSERT_TRUE(events->record(stream, point, nccl::Events::Kind::kTimed).is_ok());
    fake_gpu::drain(stream);
    EXPECT_EQ(timing.when(*point), Clock::time_point{}) << "nothing is known yet";
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(2200);
    while (Clock::now() < end) {
      ASSERT_TRUE(timing.compare().is_ok());
      const Clock::time_point before = Clock::now();
      ASSERT_TRUE(events->record(stream, point, nccl::Events::Kind::kTimed).is_ok());
      fake_gpu::drain(stream);
      const Clock::time_point when = timing.when(*point);
      if (when == Clock::time_point{}) continue;
      EXPECT_GT(nanoseconds(when), nanoseconds(before) - kRatherLate);
      EXPECT_LT(nanoseconds(when), nanoseconds(Clock::now()) + kRatherLate);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_NE(timing.when(*point), Clock::time_point{});
  }
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace kolo
