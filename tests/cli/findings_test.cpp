#include "cli/doctor/findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/environment_of.hpp"
#include "temporary_folder.hpp"

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
  EXPECT_EQ(findings[0].what, "the CPU quota, 1.5 cores, is less than the available 8 cores");
  machine.cpu_quota = 8;
  EXPECT_TRUE(judge_machine(machine, kThreadsSet).empty()) << "it takes nothing away";
}

TEST(JudgeVariables, FindsMisspeltNames) {
  EXPECT_TRUE(judge_variables({"PATH", "KOLO_TIMELINE", "HOROVOD_CYCLE_TIME"}).empty());
  const std::vector<Finding> findings = judge_variables({"KOLO_FUSION_TRESHOLD"});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_TRUE(findings[0].is_problem);
  EXPECT_EQ(findings[0].what,
            "kolo reads no environment variable KOLO_FUSION_TRESHOLD; is KOLO_FUSION_THRESHOLD "
            "meant?");
  const std::vector<Finding> others = judge_variables({"KOLO_HOME"});
  ASSERT_EQ(others.size(), 1U);
  EXPECT_FALSE(others[0].is_problem) << "somebody's own, or a module's";
}

TEST(JudgeMachine, FindsThreadsThatAreNoNumber) {
  for (const char* text : {"abc", "0", "-1", "2,x", "4 cores", "1.5", ","}) {
    const auto findings =
        judge_machine(good_machine(), environment_of({{"OMP_NUM_THREADS", text}}));
    ASSERT_EQ(findings.size(), 1U) << text;
    EXPECT_TRUE(findings[0].is_problem);
    EXPECT_EQ(findings[0].what,
              std::string("OMP_NUM_THREADS='") + text + "' is not a number of threads");
  }
  for (const char* text : {"1", " 8 ", "4,2,1", "4, 2"}) {
    EXPECT_TRUE(judge_machine(good_machine(), environment_of({{"OMP_NUM_THREADS", text}})).empty())
        << text;
  }
  const auto unset = judge_machine(good_machine(), environment_of({{"OMP_NUM_THREADS", ""}}));
  ASSERT_EQ(unset.size(), 1U);
  EXPECT_EQ(unset[0].what, "OMP_NUM_THREADS is not set") << "empty, as far as kolo run goes";
}

TEST(JudgeTemporaryFolder, NamesTheFolderAndItsFault) {
  EXPECT_TRUE(judge_temporary_folder("/tmp", "").empty());
  const auto findings = judge_temporary_folder("/full", "No space left on device");
  ASSERT_TRUE(has_problem(findings));
  EXPECT_EQ(findings[0].what,
            "the folder for temporary files, /full, cannot be used: No space left on device");
}

TEST(ParseLoaded, FindsMpisLibraryAndWhatIsMissing) {
  const Loaded whole = parse_loaded(
      "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibkolo.so.0 => /k/libkolo.so.0 (0x00007f1)\n"
      "\tlibmpi.so.40 => /m/libmpi.so.40 (0x00007f2)\n\t/lib64/ld-linux-x86-64.so.2 (0x1)\n");
  EXPECT_EQ(whole.failure, "");
  EXPECT_EQ(whole.mpi, "/m/libmpi.so.40");
  const Loaded lacking =
      parse_loaded("\tlibmpi.so.40 => /m/libmpi.so.40 (0x00007f2)\n\tlibpsm2.so.2 => not found\n");
  EXPECT_EQ(lacking.failure, "not found: libpsm2.so.2");
  EXPECT_EQ(lacking.mpi, "/m/libmpi.so.40");
  const Loaded broken = parse_loaded(
      "/k/kolo-doctor: error while loading shared libraries: /x/libmpi.so.40: file too short\n");
  EXPECT_EQ(broken.failure, "/x/libmpi.so.40: file too short");
}

TEST(JudgeLoaded, NamesABrokenLibraryAndWhoBringsIt) {
  const auto findings =
      judge_loaded({"/x/libmpi.so.40: file too short", ""}, "/m/libmpi.so", "/y:/x");
  ASSERT_TRUE(has_problem(findings));
  EXPECT_EQ(findings[0].what, "kolo's programs cannot be loaded: /x/libmpi.so.40: file too short");
  EXPECT_EQ(findings[0].mend, "remove /x from LD_LIBRARY_PATH");
  EXPECT_THAT(judge_loaded({"not found: libhdf5.so.103 ", ""}, "", "/x")[0].mend,
              HasSubstr("load the modules"));
}

TEST(JudgeLoaded, NamesAnotherLibraryThanThatOfTheBuild) {
  const testing_support::TemporaryFolder folder;
  for (const char* name : {"one", "other"}) {
    std::filesystem::create_directory(folder / name);
    std::ofstream(folder / name + "/libmpi.so.40") << name;
  }
  const std::string one = folder / "one/libmpi.so.40";
  std::ofstream(folder / "one/libmpi.so") << "the same as a file of its own";
  const std::string other = folder / "other/libmpi.so.40";
  EXPECT_TRUE(judge_loaded({"", one}, folder / "one/libmpi.so", "").empty());
  EXPECT_TRUE(judge_loaded({"", one}, folder / "gone/libmpi.so", "").empty());
  const auto findings = judge_loaded({"", other}, one, folder / "other");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(findings[0].is_problem);
  EXPECT_EQ(findings[0].what,
            "MPI's library is " + other + ", not " + one + ", with which kolo was built");
  EXPECT_THAT(findings[0].mend, HasSubstr("remove " + folder / "other" + " from LD_LIBRARY_PATH"));
  const auto lacking = judge_loaded({"not found: libpsm2.so.2", other}, one, folder / "other");
  ASSERT_TRUE(has_problem(lacking));
  EXPECT_THAT(lacking[0].what, HasSubstr("MPI's library is " + other));
}

const MpiParts kParts = {LauncherKind::kOpenMpi5, "/m/mpirun (mpirun (Open MPI) 5.0.11)",
                         "Open MPI v5.0.11", false};
const MpiParts kOtherParts = {LauncherKind::kOpenMpi4, "/x/mpirun (mpirun (Open MPI) 4.1.4)",
                              "Open MPI v5.0.11", false};

Probe mpi_probe(const std::string& level, const std::string& allreduce) {
  return probe({{"mpi.thread_level", level}, {"mpi.allreduce", allreduce}, {"mpi.ranks", "2"}});
}

TEST(JudgeMpi, LooksAtTheThreadLevel) {
  EXPECT_TRUE(judge_mpi(mpi_probe("MULTIPLE", "right"), kParts).empty());
  const auto serialized = judge_mpi(mpi_probe("SERIALIZED", "right"), kParts);
  EXPECT_EQ(serialized.size(), 1U);
  EXPECT_FALSE(has_problem(serialized));
  EXPECT_TRUE(has_problem(judge_mpi(mpi_probe("FUNNELED", "right"), kParts)));
  EXPECT_TRUE(has_problem(judge_mpi(mpi_probe("MULTIPLE", "wrong"), kParts)));
}

TEST(JudgeMpi, ReportsAProbeThatFailed) {
  const std::vector<Finding> findings =
      judge_mpi({false, "it did not end within 30 s", {}}, kParts);
  ASSERT_TRUE(has_problem(findings));
  EXPECT_THAT(findings[0].what, HasSubstr("within 30 s"));
}

TEST(JudgeMpi, NamesALauncherOfAnotherMpi) {
  const char* const cause =
      "/x/mpirun (mpirun (Open MPI) 4.1.4) is not the launcher of the MPI library, "
      "Open MPI v5.0.11";
  const auto failed = judge_mpi({false, "exit code 1", {}}, kOtherParts);
  ASSERT_TRUE(has_problem(failed));
  EXPECT_THAT(failed[0].what, HasSubstr(cause));
  EXPECT_THAT(failed[0].mend, HasSubstr("KOLO_MPIRUN"));
  MpiParts with_other_library = kOtherParts;
  with_other_library.is_other_library = true;
  EXPECT_THAT(judge_mpi({false, "exit code 1", {}}, with_other_library)[0].mend,
              HasSubstr("the library with which kolo was built"));
  Probe alone = mpi_probe("MULTIPLE", "right");
  alone.values["mpi.ranks"] = "1";
  const auto apart = judge_mpi(alone, kOtherParts);
  ASSERT_TRUE(has_problem(apart)) << "two programs of one rank each";
  EXPECT_THAT(apart[0].what, HasSubstr(cause));
  EXPECT_TRUE(has_problem(judge_mpi(alone, kParts)));
}

TEST(JudgeOtherLauncher, NotesAnotherMpirunOnPath) {
  EXPECT_TRUE(judge_other_launcher(kParts).empty());
  EXPECT_TRUE(
      judge_other_launcher({LauncherKind::kUnknown, "/x/mpirun", "Open MPI v5", false}).empty());
  const auto findings = judge_other_launcher(kOtherParts);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(has_problem(findings)) << "kolo run takes the right one";
  EXPECT_THAT(findings[0].what, HasSubstr("mpirun on PATH: /x/mpirun"));
}

TEST(JudgeCuda, WantsTheDevicesThatAreAskedFor) {
  const Lookup asked = environment_of({{"CUDA_VISIBLE_DEVICES", "1,2"}});
  EXPECT_TRUE(has_problem(judge_cuda(probe({{"cuda.driver", "none"}}), asked, true)));
  EXPECT_FALSE(has_problem(judge_cuda(probe({{"cuda.devices", "2"}}), asked, true)));
  EXPECT_FALSE(has_problem(judge_cuda(probe({{"cuda.driver", "none"}}), environment_of({}), true)));
}

TEST(JudgeCuda, ComplainsOfNothingWhereKoloHasNoCuda) {
  const Lookup asked = environment_of({{"CUDA_VISIBLE_DEVICES", "1,2"}});
  EXPECT_TRUE(judge_cuda(probe({{"cuda.driver", "none"}}), asked, false).empty());
  const Probe failed = {false, "cuInit returned error 999", {}};
  EXPECT_TRUE(has_problem(judge_cuda(failed, asked, true)));
  const auto findings = judge_cuda(failed, asked, false);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(has_problem(findings));
  EXPECT_THAT(findings[0].why, HasSubstr("built without CUDA"));
}

TEST(JudgeCuda, WantsNoDevicesWhereNoneAreAskedFor) {
  for (const char* none : {"", "-1", "NoDevFiles", "-1,0"}) {
    const Lookup asked = environment_of({{"CUDA_VISIBLE_DEVICES", none}});
    EXPECT_FALSE(has_problem(judge_cuda(probe({{"cuda.driver", "none"}}), asked, true))) << none;
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
