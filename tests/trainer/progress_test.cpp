#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kolo/progress.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <regex>
#include <string>
#include <thread>

namespace kolo {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

// A second is long enough for what must come within it, on a busy machine.
ProgressOptions options() {
  return ProgressOptions().epochs(3).steps_per_epoch(20).every_seconds(1);
}
void wait() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
}

TEST(Progress, ALineNowAndThen) {
  CaptureStderr();
  {
    Progress progress(options().unit("images"));
    progress.update(1, 1, 32, 3);
    EXPECT_FALSE(progress.due());
    progress.update(1, 2, 32, 2.5);
    wait();
    EXPECT_TRUE(progress.due());
    progress.update(1, 3, 32, 1.25);
    EXPECT_FALSE(progress.due());
    progress.clear();
  }
  const std::string said = GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(
      said, std::regex("epoch 1/3, step 3/20, \\d+ images/s, loss 1.2500, \\d+ s left\n")))
      << said;
}

// From the first step on: what was before it, loading say, is no step.
TEST(Progress, ReckonsRateAndTime) {
  CaptureStderr();
  Progress progress(options());
  wait();
  const auto begin = std::chrono::steady_clock::now();
  progress.update(2, 10, 1000, 1);
  progress.update(2, 11, 30, 1);
  wait();
  progress.update(2, 12, 34, 1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const std::string said = GetCapturedStderr();
  std::smatch found;
  ASSERT_TRUE(std::regex_match(said, found, std::regex(".* (\\d+) samples/s.* (\\d+) s left\n")))
      << said;
  EXPECT_NEAR(std::stod(found[1]), 64 / took.count(), 64 / took.count() / 4);
  // Of 60 steps 32 are done, two of them in that time.
  EXPECT_NEAR(std::stod(found[2]), took.count() / 2 * 28, 2);
}

TEST(Progress, LeavesOutWhatIsNotKnown) {
  CaptureStderr();
  Progress progress(ProgressOptions().every_seconds(1));
  progress.update(4, 6, 1, 1);
  wait();
  progress.update(4, 7, 1, std::nan(""));
  EXPECT_TRUE(
      std::regex_match(GetCapturedStderr(), std::regex("epoch 4, step 7, \\d+ samples/s\n")));
}

TEST(Progress, IsNotShownUnasked) {
  CaptureStderr();
  Progress progress(options().shown(false));
  progress.update(1, 1, 1, 1);
  wait();
  EXPECT_FALSE(progress.due());
  progress.update(1, 2, 1, 1);
  EXPECT_EQ(GetCapturedStderr(), "");
}

TEST(Progress, OnATerminalItIsDrawnAnew) {
  ASSERT_EQ(::setenv("KOLO_TERMINAL", "1", 1), 0);
  CaptureStderr();
  {
    Progress progress(options());
    for (int step = 1; step <= 3; ++step) {
      progress.update(1, step, 1, 1);
      if (step < 3) wait();
    }
  }
  ::unsetenv("KOLO_TERMINAL");
  const std::string said = GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(
      said, std::regex("epoch [^\n\r]* left\x1b\\[K\repoch [^\n\r]* left\x1b\\[K\r\x1b\\[K\r")))
      << said;
}

// A terminal of so many columns as standard error.
class TerminalAsError {
 public:
  explicit TerminalAsError(unsigned short columns)
      : terminal_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), before_(::dup(STDERR_FILENO)) {
    if (terminal_ < 0 || ::grantpt(terminal_) != 0 || ::unlockpt(terminal_) != 0) return;
    std::array<char, 128> name{};
    if (::ptsname_r(terminal_, name.data(), name.size()) != 0) return;
    other_ = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const winsize size{24, columns, 0, 0};
    works_ = other_ >= 0 && ::ioctl(other_, TIOCSWINSZ, &size) == 0 &&
             ::dup2(other_, STDERR_FILENO) >= 0;
  }
  ~TerminalAsError() {
    ::dup2(before_, STDERR_FILENO);
    for (const int descriptor : {before_, other_, terminal_}) ::close(descriptor);
  }
  TerminalAsError(const TerminalAsError&) = delete;
  TerminalAsError& operator=(const TerminalAsError&) = delete;

  bool works() const { return works_; }
  // Returns all that was written. The system may deliver it in several parts, so this writes a mark
  // and reads until the mark comes.
  std::string written() const {
    constexpr char kMark = '|';
    std::string text;
    if (::write(other_, &kMark, 1) != 1) return text;
    pollfd waits{terminal_, POLLIN, 0};
    while ((text.empty() || text.back() != kMark) &&
           ::poll(&waits, 1, /*milliseconds=*/10'000) == 1) {
      std::array<char, 4096> part{};
      const ssize_t count = ::read(terminal_, part.data(), part.size());
      if (count <= 0) break;
      text.append(part.data(), static_cast<std::size_t>(count));
    }
    return text.substr(0, text.find(kMark));
  }

 private:
  const int terminal_;
  const int before_;
  int other_ = -1;
  bool works_ = false;
};

// Else only its last part would be drawn anew.
TEST(Progress, OnANarrowTerminalItIsCut) {
  const TerminalAsError terminal(20);
  if (!terminal.works()) GTEST_SKIP() << "this system gives no pseudo-terminals";
  {
    Progress progress(options());
    progress.update(1, 1, 1, 1);
    wait();
    progress.update(1, 2, 1, 1);
  }
  EXPECT_EQ(terminal.written(), "epoch 1/3, step 2/2\x1b[K\r\x1b[K\r");
}

}  // namespace
}  // namespace kolo
