#include "core/variables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "core/config.hpp"

namespace kolo {
namespace {

using testing::Contains;
using testing::IsEmpty;

// "NAME -> MEANT", or "NAME".
std::vector<std::string> complaints(const std::vector<std::string>& names) {
  std::vector<std::string> lines;
  for (const UnknownVariable& one : unknown_variables(names))
    lines.push_back(one.meant.empty() ? one.name : one.name + " -> " + one.meant);
  return lines;
}

// All names with that prefix in a file of the repository.
std::vector<std::string> names_in(const std::filesystem::path& file, const std::string& prefix) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  const std::string all = text.str();
  const std::regex pattern(prefix + "_[A-Z0-9_]*[A-Z0-9]\\b");
  std::set<std::string> names;
  for (std::sregex_iterator match(all.begin(), all.end(), pattern), end; match != end; ++match)
    names.insert(match->str());
  return {names.begin(), names.end()};
}

TEST(UnknownVariables, AreNamedWithWhatIsMeant) {
  for (const auto& [name, meant] : std::vector<std::pair<std::string, std::string>>{
           {"KOLO_FUSION_TRESHOLD", "KOLO_FUSION_THRESHOLD"},
           {"KOLO_LOGLEVEL", "KOLO_LOG_LEVEL"},
           {"KOLO_ARENAS", "KOLO_ARENA"},
           {"KOLO_COLLECTIVE_TIMEOUT", "KOLO_COLLECTIVE_TIMEOUT_SECONDS"},
           {"KOLO_STALL_CHECK", "KOLO_STALL_CHECK_TIME_SECONDS"},
           {"KOLO_MPRUN", "KOLO_MPIRUN"},
           {"HOROVOD_FUSION_TRESHOLD", "HOROVOD_FUSION_THRESHOLD"}}) {
    EXPECT_THAT(complaints({name}), Contains(name + " -> " + meant));
  }
}

TEST(UnknownVariables, AreNotGuessedAtWhereNothingIsLikeThem) {
  EXPECT_THAT(complaints({"KOLO_HOME"}), Contains("KOLO_HOME"));
  EXPECT_THAT(complaints({"KOLO_"}), Contains("KOLO_"));
}

TEST(UnknownVariables, AreNeitherKolosNorThoseOfOthers) {
  std::vector<std::string> names = {"PATH", "kolo_arena", "KOLOSSAL", "KOLO_TEST_X", "HOROVOD_X"};
  for (const Setting& setting : settings()) {
    names.push_back(setting.name);
    if (!setting.horovod_name.empty()) names.push_back(setting.horovod_name);
  }
  EXPECT_THAT(complaints(names), IsEmpty());
}

TEST(UnknownVariables, AreNoneThatThePagesAndScriptsName) {
  const std::filesystem::path source = KOLO_SOURCE_DIR;
  for (const char* file :
       {"docs/slurm.md", "docs/running.md", "docs/configuration.md", "slurm/job.sh",
        "slurm/site.env", "slurm/interactive.sh", "cmake/modulefile.in"}) {
    EXPECT_THAT(complaints(names_in(source / file, "KOLO")), IsEmpty()) << file;
  }
  const auto horovods = names_in(source / "docs/horovod.md", "HOROVOD");
  EXPECT_GT(horovods.size(), 50U);
  EXPECT_THAT(complaints(horovods), IsEmpty());
}

}  // namespace
}  // namespace kolo
