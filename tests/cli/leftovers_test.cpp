#include "cli/rank/leftovers.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "core/host.hpp"
#include "temporary_folder.hpp"

namespace kolo::cli {
namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

void make_old(const std::string& path) {
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(24 * 8));
}

// The number of a process that has ended.
pid_t dead_process() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  return pid;
}

class Sessions : public testing::Test {
 protected:
  std::string make(const std::string& name) {
    fs::create_directory(parent_ / name);
    write(parent_ / name + "/something", "x");
    return parent_ / name;
  }
  std::string make_dead(const std::string& name) {
    const std::string folder = make(name);
    EXPECT_TRUE(claim_folder(folder).is_open());  // and lets go of it
    return folder;
  }
  void clean() { remove_dead_sessions(parent_.path()); }

  const testing_support::TemporaryFolder parent_;
};

TEST_F(Sessions, AreRemovedWhenTheirOwnerHasDied) {
  const std::string folder = make_dead("kolo-run-abcdef");
  clean();
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(Sessions, StayWhileTheirOwnerLives) {
  const std::string folder = make("kolo-run-abcdef");
  const Fd claim = claim_folder(folder);
  ASSERT_TRUE(claim.is_open());
  clean();
  EXPECT_TRUE(fs::exists(folder + "/something"));
}

TEST_F(Sessions, StayWhereTheyMayBeAnothers) {
  const std::string no_owner = make("kolo-run-abcdef");
  const std::string other_name = make_dead("kolo-run-abcdefg");
  const std::string other_host = make_dead("kolo-run-ghijkl");
  write(other_host + "/owner", "another-host " + boot_id() + "\n");
  const std::string other_boot = make_dead("kolo-run-mnopqr");
  write(other_boot + "/owner", host_name() + " another-boot\n");
  const std::string linked = make_dead("elsewhere");
  fs::create_directory_symlink(linked, parent_ / "kolo-run-stuvwx");
  clean();
  for (const std::string& folder : {no_owner, other_name, other_host, other_boot, linked})
    EXPECT_TRUE(fs::exists(folder + "/something")) << folder;
  EXPECT_TRUE(fs::is_symlink(parent_ / "kolo-run-stuvwx"));
  make_old(other_host + "/owner");
  make_old(other_boot + "/owner");
  clean();
  EXPECT_TRUE(fs::exists(other_host)) << "is for its host to remove, however old";
  EXPECT_FALSE(fs::exists(other_boot));
}

class FlightRecords : public testing::Test {
 protected:
  std::string make(const std::string& name, const std::string& host, pid_t process) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    write(path, R"({"kolo_flight":1,"rank":0,"size":2,"host":")" + host + R"(","process":)" +
                    std::to_string(process) + ",\"job\":7}\n{}\n");
    return path;
  }
  void clean() { remove_old_flight_records(folder_.path()); }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(FlightRecords, AreRemovedWhenTheyAreOldAndTheirProcessHasEnded) {
  const std::string record = make("17/flight-rank-0.json", host_name(), dead_process());
  const std::string unfinished = make("17/flight-rank-1.json.5.tmp", host_name(), dead_process());
  clean();
  EXPECT_TRUE(fs::exists(record)) << "somebody may still want to know why the job has failed";
  make_old(record);
  make_old(unfinished);
  clean();
  EXPECT_FALSE(fs::exists(folder_ / "17"));
  EXPECT_TRUE(fs::exists(folder_.path()));
}

TEST_F(FlightRecords, StayWhereTheyMayBeAnothers) {
  const std::string living = make("1/flight-rank-0.json", host_name(), ::getpid());
  const std::string elsewhere = make("1/flight-rank-1.json", "another-host", dead_process());
  const std::string other_name = make("1/notes.json", host_name(), dead_process());
  const std::string other_folder = make("x1/flight-rank-0.json", host_name(), dead_process());
  const std::string other_text = folder_ / "1/flight-rank-2.json";
  write(other_text, "{\"host\":\"" + host_name() + "\",\"process\":1}\n");
  for (const std::string& path : {living, elsewhere, other_name, other_folder, other_text})
    make_old(path);
  const std::string own = make("1/flight-rank-3.json", host_name(), dead_process());
  make_old(own);
  clean();
  for (const std::string& path : {living, elsewhere, other_name, other_folder, other_text})
    EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_FALSE(fs::exists(own));
}

}  // namespace
}  // namespace kolo::cli
