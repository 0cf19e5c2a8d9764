#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/error.h>
#include <kolo/summary_writer.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "temporary_folder.hpp"

namespace kolo {
namespace {

using testing::HasSubstr;

class SummaryWriterTest : public testing::Test {
 protected:
  // By the names of all files below the folder.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file()) continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      files[std::filesystem::relative(entry.path(), folder_.path())] = text.str();
    }
    return files;
  }
  std::string only_file() const {
    const auto all = files();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? "" : all.begin()->second;
  }

  const testing_support::TemporaryFolder folder_;
};

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST_F(SummaryWriterTest, WritesWhenItIsFlushedOrEnds) {
  {
    SummaryWriter writer(folder_ / "deep/er");
    EXPECT_THAT(only_file(), HasSubstr("brain.Event:2"));
    EXPECT_THAT(files().begin()->first, HasSubstr("deep/er/events.out.tfevents."));
    writer.add_scalar("first", 1, 1);
    EXPECT_THAT(only_file(), testing::Not(HasSubstr("first")));
    writer.flush();
    EXPECT_THAT(only_file(), HasSubstr("first"));
    writer.add_scalar("second", 2, 1);
  }
  EXPECT_THAT(only_file(), HasSubstr("second"));
}

TEST_F(SummaryWriterTest, WritesNowAndThen) {
  SummaryWriter writer(folder_.path(), SummaryWriterOptions().flush_seconds(0.05));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  writer.add_scalar("here", 1, 1);
  EXPECT_THAT(only_file(), HasSubstr("here"));
}

TEST_F(SummaryWriterTest, EachHasAFileOfItsOwn) {
  const SummaryWriter first(folder_.path());
  const SummaryWriter second(folder_.path());
  const SummaryWriter third(folder_.path(), SummaryWriterOptions().all_ranks(true));
  EXPECT_EQ(files().size(), 3U);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "rank-0"));
}

TEST_F(SummaryWriterTest, ThreadsShareOne) {
  {
    SummaryWriter writer(folder_.path());
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&writer, i] {
        for (int step = 0; step < 500; ++step)
          writer.add_scalar(std::string(1, static_cast<char>('a' + i)), 1, 1);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // The version's record has 24 + 16 bytes, each scalar's 23 + 16.
  EXPECT_EQ(only_file().size(), 40U + 2000 * 39);
}

TEST_F(SummaryWriterTest, RefusesWhatIsNoImage) {
  SummaryWriter writer(folder_.path());
  const auto image = [&](const at::Tensor& tensor) {
    return refusal([&] { writer.add_image("i", tensor, 1); });
  };
  EXPECT_EQ(image(torch::zeros({3, 4, 5})), "");
  EXPECT_EQ(image(torch::zeros({4, 5}, torch::kByte)), "");
  EXPECT_EQ(image(torch::zeros({3, 4, 5}, torch::kHalf)), "");
  EXPECT_THAT(image(torch::zeros({2, 4, 5})), HasSubstr("2 channels"));
  EXPECT_THAT(image(torch::zeros({4})), HasSubstr("1 dimensions"));
  EXPECT_THAT(image(torch::zeros({3, 0, 5})), HasSubstr("empty"));
  EXPECT_THAT(image(torch::zeros({3, 4, 5}, torch::kInt)), HasSubstr("its dtype is Int"));
  EXPECT_THAT(image(torch::zeros({1}).expand({1, 1 << 16, 1 << 15})), HasSubstr("2^30"));
  EXPECT_THAT(
      refusal([&] { writer.add_histogram("h", torch::zeros({3}, torch::kComplexFloat), 1); }),
      HasSubstr("complex"));
}

TEST_F(SummaryWriterTest, RefusesWhatNobodyCouldRead) {
  SummaryWriter writer(folder_.path());
  EXPECT_THAT(refusal([&] { writer.add_scalar("a\xff", 1, 1); }),
              HasSubstr("add_scalar: byte 1 of"));
  EXPECT_THAT(refusal([&] { writer.add_text("a", "\xc3", 1); }), HasSubstr("no UTF-8"));
  EXPECT_THAT(refusal([&] { writer.add_image("i", torch::Tensor(), 1); }), HasSubstr("undefined"));
  EXPECT_THAT(refusal([&] { writer.add_histogram("h", torch::Tensor(), 1); }),
              HasSubstr("undefined"));
}

// A limit of the file's size is as good as a full disk.
TEST_F(SummaryWriterTest, AfterAFailureWhatIsThereStaysReadable) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &ignore, &before);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  SummaryWriter writer(folder_.path());
  writer.add_scalar("first", 1, 1);
  writer.flush();
  const std::string whole = only_file();
  const rlimit small{whole.size() + 10, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  writer.add_scalar("second", 2, 2);
  EXPECT_THROW(writer.flush(), FileError);
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::sigaction(SIGXFSZ, &before, nullptr);
  EXPECT_EQ(only_file(), whole);
  writer.add_scalar("third", 3, 3);
  writer.flush();
  EXPECT_EQ(only_file().substr(0, whole.size()), whole);
  EXPECT_EQ(only_file().size(), whole.size() + 43);
}

TEST_F(SummaryWriterTest, SaysWhyItCannotWrite) {
  try {
    const SummaryWriter writer("/dev/null/folder");
    FAIL() << "nothing was thrown";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/null/folder: the folder cannot be made"));
  }
}

}  // namespace
}  // namespace kolo
