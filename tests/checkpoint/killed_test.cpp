// The same with a real process on a real file system: it ends, as by SIGKILL, before the n-th call
// that changes something.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/saved_state.hpp"
#include "kolo/error.h"
#include "temporary_folder.hpp"

namespace kolo::checkpoint::test {
namespace {

// The system's, until the calls are used up.
class LimitedFiles : public FileSystem {
 public:
  explicit LimitedFiles(int calls) : left_(calls) {}

  std::unique_ptr<File> create(const std::string& path) override {
    use();
    return std::make_unique<Limited>(*this, system_files().create(path));
  }
  std::unique_ptr<File> open_to_write(const std::string& path) override {
    use();
    return std::make_unique<Limited>(*this, system_files().open_to_write(path));
  }
  std::unique_ptr<File> open_to_read(const std::string& path) override {
    return system_files().open_to_read(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    use();
    system_files().rename(from, to);
  }
  void remove(const std::string& path) override {
    use();
    system_files().remove(path);
  }
  void sync_folder(const std::string& path) override {
    use();
    system_files().sync_folder(path);
  }
  bool has_folder(const std::string& path) override { return system_files().has_folder(path); }
  void make_folder(const std::string& path) override {
    use();
    system_files().make_folder(path);
  }
  std::vector<std::string> list(const std::string& folder) override {
    return system_files().list(folder);
  }

 private:
  class Limited : public File {
   public:
    Limited(LimitedFiles& files, std::unique_ptr<File> file)
        : files_(files), file_(std::move(file)) {}
    void write(std::uint64_t offset, const void* data, std::size_t size) override {
      // Half of it first.
      file_->write(offset, data, size / 2);
      files_.use();
      file_->write(offset, data, size);
    }
    std::size_t read(std::uint64_t offset, void* data, std::size_t size) override {
      return file_->read(offset, data, size);
    }
    std::uint64_t size() override { return file_->size(); }
    void resize(std::uint64_t size) override {
      files_.use();
      file_->resize(size);
    }
    void sync() override {
      files_.use();
      file_->sync();
    }
    void close() override {
      files_.use();
      file_->close();
    }

   private:
    LimitedFiles& files_;
    const std::unique_ptr<File> file_;
  };

  void use() {
    if (left_-- == 0) ::_exit(9);
  }

  int left_;
};

class Killed : public testing::Test {
 protected:
  // In a process of its own, which may use so many calls. Returns whether it was killed.
  bool save(std::int64_t step, int calls) {
    const pid_t child = ::fork();
    if (child == 0) {
      LimitedFiles files(calls);
      Shelf shelf(files, folder_.path(), "c", {1});
      save_small(files, shelf, step);
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_THAT(WEXITSTATUS(status), testing::AnyOf(0, 9));
    return WEXITSTATUS(status) == 9;
  }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(Killed, AtAnyCall) {
  std::int64_t step = 10;
  ASSERT_FALSE(save(step, 1000));
  std::int64_t last = step;
  bool is_killed = true;
  int calls = 0;
  for (; is_killed; ++calls) {
    step += 10;
    is_killed = save(step, calls);
    const std::vector<Saved> all = list_checkpoints(system_files(), folder_.path(), "c");
    ASSERT_FALSE(all.empty()) << "killed before call " << calls;
    // No file of its final name is damaged.
    for (const Saved& saved : all)
      EXPECT_EQ(step_if_whole(system_files(), saved.path), saved.step) << "call " << calls;
    EXPECT_THAT(all[0].step, testing::AnyOf(last, step));
    last = all[0].step;
  }
  EXPECT_EQ(last, step);
  EXPECT_GT(calls, 15);
  EXPECT_EQ(system_files().list(folder_.path()).size(), 1);
}

}  // namespace
}  // namespace kolo::checkpoint::test
