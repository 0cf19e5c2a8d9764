// Processes that hand each other memory files.
#include "collectives/shm/exchange.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/shm/segment.hpp"

namespace kolo::shm {
namespace {

using testing::HasSubstr;

// A child that runs the function and ends with its result.
pid_t in_a_child(const std::function<int()>& run) {
  const pid_t child = fork();
  if (child == 0) _exit(run());
  return child;
}

int exit_code_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Maps what the others sent, and looks whether each has written its number.
int check_numbers(const std::vector<Handed>& all, int mine) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == mine) continue;
    Segment segment;
    if (!Segment::adopt(all[rank].memory, segment).is_ok()) return 3;
    if (segment.data()[7] != static_cast<std::byte>(rank + 1)) return 4;
  }
  return 0;
}

// A process's part; it lives as long as this.
class Part {
 public:
  Part() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~Part() { close(ends_[1]); }

  int take(Exchange& exchange, int rank) {
    if (!Segment::create("kolo-test", 4096, mine_).is_ok()) return 1;
    mine_.data()[7] = static_cast<std::byte>(rank + 1);
    const bool swapped = exchange.swap({ends_[0], mine_.descriptor()}, all).is_ok();
    close(ends_[0]);
    return swapped ? check_numbers(all, rank) : 2;
  }

  bool hung_up(std::size_t rank) const {
    pollfd looked{all[rank].lifeline, 0, 0};
    return poll(&looked, 1, 0) == 1 && (looked.revents & POLLHUP) != 0;
  }

  std::vector<Handed> all;

 private:
  int ends_[2];
  Segment mine_;
};

int take_part(Exchange& exchange, int rank) {
  return Part().take(exchange, rank);
}

TEST(Exchange, EveryoneGetsEveryonesFile) {
  for (const int size : {2, 3, 8}) {
    Exchange first(0, size);
    std::string address;
    ASSERT_TRUE(first.listen(address).is_ok());
    std::vector<pid_t> children;
    for (int rank = 1; rank < size; ++rank) {
      children.push_back(in_a_child([&, rank] {
        Exchange mine(rank, size);
        return mine.connect(address).is_ok() ? take_part(mine, rank) : 9;
      }));
    }
    EXPECT_EQ(take_part(first, 0), 0);
    for (const pid_t child : children) EXPECT_EQ(exit_code_of(child), 0);
  }
}

// Rank 1 of three shares no memory.
TEST(Exchange, AProcessMayShareNoMemory) {
  Exchange first(0, 3);
  std::string address;
  ASSERT_TRUE(first.listen(address).is_ok());
  std::vector<pid_t> children;
  for (const int rank : {1, 2}) {
    children.push_back(in_a_child([&, rank] {
      Exchange mine(rank, 3);
      std::vector<Handed> all;
      if (!mine.connect(address).is_ok()) return 9;
      if (!mine.swap({STDIN_FILENO, rank == 1 ? -1 : STDIN_FILENO}, all).is_ok()) return 8;
      const std::size_t other = rank == 1 ? 2 : 1;
      if (all[0].lifeline < 0 || all[0].memory < 0 || all[other].lifeline < 0) return 7;
      return (all[other].memory < 0) == (other == 1) ? 0 : 6;
    }));
  }
  std::vector<Handed> all;
  ASSERT_TRUE(first.swap({STDIN_FILENO, STDIN_FILENO}, all).is_ok());
  EXPECT_GE(all[1].lifeline, 0);
  EXPECT_EQ(all[1].memory, -1);
  EXPECT_GE(all[2].memory, 0);
  for (const pid_t child : children) EXPECT_EQ(exit_code_of(child), 0);
}

TEST(Exchange, SeesThatAProcessIsKilled) {
  Exchange first(0, 2);
  std::string address;
  ASSERT_TRUE(first.listen(address).is_ok());
  const pid_t child = in_a_child([&] {
    Exchange mine(1, 2);
    Part part;
    if (!mine.connect(address).is_ok() || part.take(mine, 1) != 0) return 1;
    pause();
    return 0;
  });
  Part part;
  ASSERT_EQ(part.take(first, 0), 0);
  EXPECT_FALSE(part.hung_up(1));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(exit_code_of(child), 128 + SIGKILL);
  EXPECT_TRUE(part.hung_up(1));
}

TEST(Exchange, WhoDiesBeforeItsTurnIsAnError) {
  Exchange first(0, 2);
  std::string address;
  ASSERT_TRUE(first.listen(address).is_ok());
  const pid_t child = in_a_child([&] {
    Exchange mine(1, 2);
    return mine.connect(address).is_ok() ? 0 : 1;
  });
  EXPECT_EQ(exit_code_of(child), 0);
  std::vector<Handed> all;
  EXPECT_THAT(first.swap({STDIN_FILENO, STDIN_FILENO}, all).message(), HasSubstr("gave up"));
}

TEST(Exchange, AnAddressThatIsNotThereFailsAtOnce) {
  Exchange mine(1, 2);
  EXPECT_THAT(mine.connect("kolo-0123").message(), HasSubstr("connect"));
}

TEST(Exchange, TwoOfOneRankAreRefused) {
  auto first = std::make_unique<Exchange>(0, 3);
  std::string address;
  ASSERT_TRUE(first->listen(address).is_ok());
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(in_a_child([&] {
      Exchange mine(1, 3);
      return mine.connect(address).is_ok() ? take_part(mine, 1) : 9;
    }));
  }
  std::vector<Handed> all;
  EXPECT_THAT(first->swap({STDIN_FILENO, STDIN_FILENO}, all).message(),
              HasSubstr("does not belong to this job"));
  first.reset();
  for (const pid_t child : children) EXPECT_EQ(exit_code_of(child), 2) << "nobody waits for ever";
}

}  // namespace
}  // namespace kolo::shm
