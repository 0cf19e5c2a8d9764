#include "cli/findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/environment_of.hpp"

namespace kolo::cli {
namespace {

using testing::HasSubstr;

Machine good_machine() {
  Machine machine;
  machine.cores = 8;
  machine.shm_bytes = std::int64_t{8} << 30;
  machine.shm_free_bytes = machine.shm_bytes;
  return machine;
}

const Lookup kThreadsSet = environment_of({{"OMP_NUM_THREADS", "4"}});

Probe probe(std::map<std::string, std::string> values) {
  return {true, "", std::move(values)};
}

TEST(JudgeMachine, FindsNothingWrongWithAGoodOne) {
  EXPECT_TRUE(judge_machine(good_machine(), kThreadsSet).empty());
}

TEST(JudgeMachine, FindsASmallSharedMemory) {
  Machine machine = good_machine();
  machine.shm_bytes = machine.shm_free_bytes = 64 << 20;
  const std::vector<Finding> findings = judge_machine(machine, kThreadsSet);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_TRUE(findings[0].is_problem);
  EXPECT_THAT(findings[0].what, HasSubstr("64 MiB"));
  EXPECT_THAT(findings[0].mend, HasSubstr("--shm-size"));
}

TEST(JudgeMachine, FindsAFullSharedMemory) {
  Machine machine = good_machine();
  machine.shm_free_bytes = 0;
  EXPECT_TRUE(has_problem(judge_machine(machine, kThreadsSet)));
}

TEST(JudgeMachine, FindsRootUnlessAllowed) {
  Machine machine = good_machine();
  machine.is_root = true;
  EXPECT_TRUE(has_problem(judge_machine(machine, kThreadsSet)));
  EXPECT_FALSE(has_problem(
      judge_machine(machine, environment_of({{"OMP_NUM_THREADS", "4"},
                                             {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                             {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}))));
}

TEST(JudgeMachine, NotesUnsetThreadsAndOneCore) {
  Machine machine = good_machine();
  machine.cores = 1;
  const std::vector<Finding> findings = judge_machine(machine, environment_of({}));
  EXPECT_EQ(findings.size(), 2U);
  EXPECT_FALSE(has_problem(findings));
}

TEST(JudgeMachine, NotesAQuotaOfCpuTime) {
  Machine machine = good_machine();
  machine.cpu_quota = 1.5;
  const std::vector<Finding> findings = judge_machine(machine, kThreadsSet);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(findings[0].is_problem);
  EXPECT_EQ(findings[0].what, "a CPU quota of 1.5 cores holds, of 8 cores");
  machine.cpu_quota = 8;
  EXPECT_TRUE(judge_machine(machine, kThreadsSet).empty()) << "it takes nothing away";
}

TEST(JudgeMpi, LooksAtTheThreadLevel) {
  EXPECT_TRUE(
      judge_mpi(probe({{"mpi.thread_level", "MULTIPLE"}, {"mpi.allreduce", "right"}})).empty());
  EXPECT_FALSE(has_problem(
      judge_mpi(probe({{"mpi.thread_level", "SERIALIZED"}, {"mpi.allreduce", "right"}}))));
  EXPECT_TRUE(has_problem(
      judge_mpi(probe({{"mpi.thread_level", "FUNNELED"}, {"mpi.allreduce", "right"}}))));
  EXPECT_TRUE(has_problem(
      judge_mpi(probe({{"mpi.thread_level", "MULTIPLE"}, {"mpi.allreduce", "wrong"}}))));
}

TEST(JudgeMpi, ReportsAProbeThatFailed) {
  const std::vector<Finding> findings = judge_mpi({false, "it did not end within 30 s", {}});
  ASSERT_TRUE(has_problem(findings));
  EXPECT_THAT(findings[0].what, HasSubstr("within 30 s"));
}

TEST(JudgeCuda, WantsTheDevicesThatAreAskedFor) {
  const Lookup asked = environment_of({{"CUDA_VISIBLE_DEVICES", "1,2"}});
  EXPECT_TRUE(has_problem(judge_cuda(probe({{"cuda.driver", "none"}}), asked)));
  EXPECT_FALSE(has_problem(judge_cuda(probe({{"cuda.devices", "2"}}), asked)));
  EXPECT_FALSE(has_problem(judge_cuda(probe({{"cuda.driver", "none"}}), environment_of({}))));
}

TEST(JudgeCuda, WantsNoDevicesWhereNoneAreAskedFor) {
  for (const char* none : {"", "-1", "NoDevFiles", "-1,0"}) {
    const Lookup asked = environment_of({{"CUDA_VISIBLE_DEVICES", none}});
    EXPECT_FALSE(has_problem(judge_cuda(probe({{"cuda.driver", "none"}}), asked))) << none;
  }
}

TEST(ListedDevices, EndAtTheFirstThatIsNone) {
  EXPECT_THAT(listed_devices("1,0"), testing::ElementsAre("1", "0"));
  EXPECT_THAT(listed_devices("1,-1,0"), testing::ElementsAre("1"));
  EXPECT_THAT(listed_devices("NoDevFiles"), testing::IsEmpty());
  EXPECT_THAT(listed_devices(""), testing::IsEmpty());
}

TEST(ParseProbe, TakesItsOwnLinesOnly) {
  const auto values = parse_probe("noise=1\nkolo-doctor: a=b=c\r\nkolo-doctor: broken\n");
  EXPECT_THAT(values, testing::ElementsAre(std::pair{"a", "b=c"}));
}

TEST(ShowBytes, IsReadable) {
  EXPECT_EQ(show_bytes(-1), "unlimited");
  EXPECT_EQ(show_bytes(0), "0 B");
  EXPECT_EQ(show_bytes(1536), "1.5 KiB");
  EXPECT_EQ(show_bytes(std::int64_t{64} << 20), "64 MiB");
}

TEST(ToText, EndsWithAVerdict) {
  EXPECT_EQ(to_text({}), "Nothing is wrong.\n");
  EXPECT_EQ(to_text({{false, "a", "b", "c"}}),
            "note:  a\n       why it matters: b\n       what to do:     c\nNothing is wrong.\n");
  EXPECT_THAT(to_text({{true, "a", "b", "c"}}),
              testing::AllOf(testing::StartsWith("WRONG: a\n"),
                             testing::EndsWith("Something is wrong.\n")));
}

TEST(ToText, ShowsTheFirstOfMany) {
  const std::string text = to_text(std::vector<Finding>(25, {false, "a", "b", "c"}));
  EXPECT_THAT(text, testing::EndsWith("... and 5 more (--json FILE)\nNothing is wrong.\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 20 * 3 + 2);
}

TEST(ToJson, EscapesText) {
  const std::string json = to_json({{"A", {{"k", "a\"b\\\n"}}}}, {{true, "w", "y", "m"}});
  EXPECT_THAT(json, HasSubstr(R"("k": "a\"b\\\n")"));
  EXPECT_THAT(json, HasSubstr(R"({"problem": true, "what": "w", "why": "y", "mend": "m"})"));
}

}  // namespace
}  // namespace kolo::cli
