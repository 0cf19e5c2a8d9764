#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fixture.hpp"
#include "shared_folder.hpp"

namespace kolo {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using testing_support::message_of;
using testing_support::WithKolo;

class Timeline : public WithKolo {
 protected:
  void SetUp() override {
    WithKolo::SetUp();
    shared_.emplace();
    folder_ = shared_->path();
  }
  void TearDown() override {
    shared_.reset();
    WithKolo::TearDown();
  }

  std::vector<json> events(const std::string& phase, int of_rank) const {
    std::ifstream file(folder_ + "/timeline-rank-" + std::to_string(of_rank) + ".json");
    std::vector<json> found;
    for (json& event : json::parse(file)) {
      if (event["ph"] == phase) found.push_back(std::move(event));
    }
    return found;
  }
  std::vector<json> events(const std::string& phase) const { return events(phase, rank()); }

  std::map<int, std::string> rows() const {
    std::map<int, std::string> names;
    for (const json& event : events("M")) {
      if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
    }
    return names;
  }

  // "row: NAME" of spans, and how often each comes.
  std::map<std::string, int> spans() const {
    std::map<int, std::string> names = rows();
    std::map<std::string, int> counts;
    for (const json& event : events("X"))
      ++counts[names[event["tid"]] + ": " + event["name"].get<std::string>()];
    return counts;
  }

  std::optional<testing_support::SharedFolder> shared_;  // while kolo is there
  std::string folder_;
};

std::string with_medium(const std::string& operation) {
  if (size() == 1) return "LOCAL_" + operation;
  return (size() == 3 ? "MPI_" : "SHM_") + operation;  // as add_mpi_test has it
}

TEST_F(Timeline, ShowsATraining) {
  constexpr int kSteps = 6;
  start_timeline(folder_);
  torch::nn::Sequential net(torch::nn::Linear(20, 30), torch::nn::Linear(30, 10));
  {
    DistributedOptimizer<torch::optim::SGD> optimizer(
        net->parameters(), torch::optim::SGDOptions(0.1),
        DistributedOptimizerOptions().name("sgd").named_parameters(
            net->named_parameters().pairs()));
    for (int step = 0; step < kSteps; ++step) {
      const auto scope = trace("training step");
      optimizer.zero_grad();
      net->forward(torch::ones({8, 20})).sum().backward();
      optimizer.step();
    }
  }
  stop_timeline();
  const std::map<std::string, int> counts = spans();
  EXPECT_EQ(counts.at("program: training step"), kSteps);
  EXPECT_EQ(counts.at("sgd.gradient.0.weight: NEGOTIATE_ALLREDUCE"), kSteps);
  // By name, by number, then in a bucket.
  EXPECT_EQ(counts.at("sgd.gradient.0.weight: ALLREDUCE"), 2);
  EXPECT_EQ(counts.at("sgd.gradient.0.weight: " + with_medium("ALLREDUCE")), 2);
  int in_buckets = 0;
  for (const auto& [span, count] : counts) {
    if (span.rfind("bucket", 0) == 0 &&
        span.find(": " + with_medium("ALLREDUCE")) != std::string::npos)
      in_buckets += count;
  }
  EXPECT_EQ(in_buckets, kSteps - 2);
  for (int step = 1; step <= kSteps; ++step)
    EXPECT_EQ(counts.at("steps: STEP " + std::to_string(step)), 1);
  std::set<int> steps;
  for (const json& event : events("X")) {
    if (event["name"] == "NEGOTIATE_ALLREDUCE" && event["args"].contains("bytes"))
      steps.insert(event["args"]["step"].get<int>());
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(Timeline, ShowsCheckpoints) {
  at::Tensor weights = torch::ones({100});
  Checkpoint checkpoint(folder_ + "/checkpoints", CheckpointOptions().asynchronous(true));
  checkpoint.add("weights", weights);
  start_timeline(folder_);
  checkpoint.save(1);
  checkpoint.wait();
  ASSERT_TRUE(checkpoint.restore());
  stop_timeline();
  const std::map<std::string, int> counts = spans();
  EXPECT_EQ(counts.at("program: checkpoint.save"), 1);
  EXPECT_EQ(counts.at("program: checkpoint.wait"), 2);  // restore() does so first
  EXPECT_EQ(counts.at("program: checkpoint.restore"), 1);
  EXPECT_EQ(counts.count("program: checkpoint.write"), 0U);
  int writes = 0;
  for (const auto& [span, count] : counts) {
    if (span.find(": checkpoint.write") != std::string::npos) writes += count;
  }
  EXPECT_EQ(writes, 1);
}

// Who coordinates sees all.
TEST_F(Timeline, ShowsWhenEachRankCame) {
  start_timeline(folder_);
  for (int i = 0; i < 4; ++i) allreduce_(torch::ones({3}), "x");
  stop_timeline();
  std::map<std::string, int> arrivals;
  std::map<int, std::string> names = rows();
  for (const json& event : events("i")) {
    if (event["cat"] == "arrival" && names[event["tid"]] == "x")
      ++arrivals[event["name"].get<std::string>()];
  }
  EXPECT_EQ(arrivals.size(), rank() == 0 ? static_cast<std::size_t>(size()) : 0U);
  for (const auto& [rank, count] : arrivals) EXPECT_EQ(count, 4) << "of rank " << rank;
}

// The ranks of a test are on one machine, with one clock.
TEST_F(Timeline, AlignsClocks) {
  start_timeline(folder_);
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));  // a reading in between
  stop_timeline();
  int readings = 0;
  for (const json& event : events("i")) {
    if (event["name"] != "clock") continue;
    ++readings;
    const auto offset = event["args"]["offset_ns"].get<std::int64_t>();
    const auto error = event["args"]["error_ns"].get<std::int64_t>();
    EXPECT_LE(std::abs(offset), error);
    EXPECT_EQ(error > 0, rank() > 0);
  }
  EXPECT_THAT(readings, AllOf(Ge(3), Le(4)));
  for (const json& event : events("M")) {
    if (event["name"] != "kolo") continue;
    EXPECT_EQ(event["args"]["rank"], rank());
    EXPECT_EQ(event["args"]["size"], size());
    EXPECT_EQ(event["args"]["run"], broadcast_object(event["args"]["run"].get<std::int64_t>()));
  }
}

// What a rank does not come with is what the others wait for.
TEST_F(Timeline, ShowsWaiting) {
  start_timeline(folder_);
  allreduce_(torch::ones({3}), "x");
  if (rank() == size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  allreduce_(torch::ones({3}), "x");
  stop_timeline();
  double longest = 0;
  for (const json& event : events("X")) {
    if (event["name"] == "WAIT" && event["args"]["for"] == "x")
      longest = std::max(longest, event["dur"].get<double>());
  }
  if (rank() < size() - 1) {
    EXPECT_THAT(longest, AllOf(Ge(150e3), Le(5e6)));
  }
}

TEST_F(Timeline, MayLeaveOutTheMembersOfBuckets) {
  start_timeline(folder_, TimelineOptions().bucket_members(false));
  for (int step = 0; step < 5; ++step) {
    std::vector<Handle> handles;
    for (const char* name : {"a", "b", "c"})
      handles.push_back(allreduce_async_(torch::ones({4}), name));
    for (Handle& handle : handles) handle.wait();
  }
  stop_timeline();
  const std::map<std::string, int> counts = spans();
  EXPECT_EQ(counts.at("a: NEGOTIATE_ALLREDUCE"), 2);
}

TEST_F(Timeline, StepsMayBeTheProgramsOwn) {
  start_timeline(folder_);
  mark_step();
  const at::Tensor p = torch::zeros({2}).requires_grad_();
  DistributedOptimizer<torch::optim::SGD> optimizer(std::vector<at::Tensor>{p},
                                                    torch::optim::SGDOptions(1.0));
  p.sum().backward();
  optimizer.step();
  mark_step();
  stop_timeline();
  std::set<std::string> steps;
  for (const auto& [span, count] : spans()) {
    if (span.rfind("steps", 0) == 0) steps.insert(span);
  }
  EXPECT_THAT(steps, ElementsAre("steps: STEP 1", "steps: STEP 2"));
}

TEST_F(Timeline, ABadFolderIsAnErrorOnAllRanks) {
  const int last = size() - 1;
  if (rank() == last) std::ofstream(folder_ + "/file") << "x";
  barrier();
  const std::string mine = rank() == last ? folder_ + "/file/in" : folder_ + "/good";
  EXPECT_THAT(
      message_of<FileError>([&] { start_timeline(mine); }),
      AllOf(HasSubstr("rank " + std::to_string(last) + ": timeline: " + folder_ + "/file/in"),
            HasSubstr("Not a directory")));
  EXPECT_FALSE(
      std::filesystem::exists(folder_ + "/good/timeline-rank-" + std::to_string(rank()) + ".json"));
  EXPECT_THAT(message_of<FileError>([&] { start_timeline(""); }), HasSubstr("name is empty"));
  // All goes on.
  start_timeline(folder_);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { start_timeline(folder_); }),
              HasSubstr("a timeline is on; call stop_timeline() first"));
  allreduce_(torch::ones({3}), "x");
  stop_timeline();
  stop_timeline();
  EXPECT_EQ(spans().at("x: ALLREDUCE"), 1);
}

TEST_F(Timeline, IsWhatHappenedSinceItsStart) {
  start_timeline(folder_);
  allreduce_(torch::ones({3}), "first");
  stop_timeline();
  start_timeline(folder_);
  allreduce_(torch::ones({3}), "second");
  stop_timeline();
  const std::map<std::string, int> counts = spans();
  EXPECT_EQ(counts.count("first: ALLREDUCE"), 0U);
  EXPECT_EQ(counts.count("second: ALLREDUCE"), 1U);
}

TEST_F(Timeline, EndsWithKolo) {
  start_timeline(folder_);
  const int mine = rank();
  allreduce_(torch::ones({3}), "x");
  const auto scope = trace("longer than kolo");
  shutdown();
  std::ifstream file(folder_ + "/timeline-rank-" + std::to_string(mine) + ".json");
  EXPECT_EQ(json::parse(file).back()["name"], "kolo_end");
  kolo::init();
}

TEST_F(Timeline, MayComeFromTheEnvironment) {
  shutdown();
  ::setenv("KOLO_TIMELINE", folder_.c_str(), 1);
  kolo::init();
  ::unsetenv("KOLO_TIMELINE");
  allreduce_(torch::ones({3}), "x");
  stop_timeline();
  EXPECT_EQ(spans().at("x: ALLREDUCE"), 1);
  shutdown();
  ::setenv("KOLO_TIMELINE", "/dev/null/folder", 1);
  EXPECT_THAT(message_of<FileError>([] { kolo::init(); }), HasSubstr("/dev/null/folder"));
  EXPECT_FALSE(is_initialized());
  ::unsetenv("KOLO_TIMELINE");
  kolo::init();
}

TEST(TimelineWithoutKolo, ScopesDoNothing) {
  const auto scope = trace("nothing");
  EXPECT_THROW(start_timeline("/tmp"), NotInitializedError);
  EXPECT_THROW(mark_step(), NotInitializedError);
}

}  // namespace
}  // namespace kolo
