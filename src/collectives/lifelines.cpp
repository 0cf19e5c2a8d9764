#include "collectives/lifelines.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace kolo {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Returns the state of the process as in proc(5), or 0. The state follows the program's name, which
// may itself contain parentheses.
char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

bool is_stopped(pid_t process) {
  const char state = state_of(process);
  if (state != 't') return state == 'T';
  // A tracer such as strace stops a process for moments, a debugger for longer.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return state_of(process) == 't';
}

}  // namespace

Lifelines::Lifelines(std::vector<Peer> peers, int own) : peers_(std::move(peers)), own_(own) {}

Lifelines::~Lifelines() {
  for (const Peer& peer : peers_) {
    if (peer.reading >= 0) close(peer.reading);
  }
  drop_own();
}

void Lifelines::drop_own() {
  if (own_ >= 0) close(std::exchange(own_, -1));
}

std::optional<int> Lifelines::lost_rank(const std::vector<int>& ranks) const {
  for (const Peer& peer : peers_) {
    if (!contains(ranks, peer.rank)) continue;
    pollfd looked{peer.reading, 0, 0};  // poll() ignores a negative one
    if (poll(&looked, 1, 0) > 0 && (looked.revents & (POLLHUP | POLLERR)) != 0) return peer.rank;
  }
  return std::nullopt;
}

std::vector<int> Lifelines::stopped_ranks(const std::vector<int>& ranks) const {
  std::vector<int> stopped;
  for (const Peer& peer : peers_) {
    if (peer.process > 0 && contains(ranks, peer.rank) && is_stopped(peer.process))
      stopped.push_back(peer.rank);
  }
  return stopped;
}

}  // namespace kolo
