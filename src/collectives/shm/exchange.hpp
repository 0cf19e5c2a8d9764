// Passes file descriptors of shared memory between the processes of a node, over a Unix socket with
// a random name. Only processes of the same user take part. It leaves nothing in any file system.
#pragma once

#include <string>
#include <vector>

#include "core/status.hpp"

namespace kolo::shm {

// The descriptors that a process sends to the others. `lifeline` is the reading end of a pipe that
// hangs up when the process ends. `memory` is -1 if the process shares none.
struct Handed {
  int lifeline = -1;
  int memory = -1;
};

// One process's part in it. Rank 0 listens, and tells the others the address by other means; they
// connect; when all have, everyone swaps. Each step fails rather than waits for longer than the
// timeout, and whoever is destroyed early lets the others fail at once.
class Exchange {
 public:
  Exchange(int rank, int size) : rank_(rank), size_(size) {}
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Rank 0. `address` is text, for connect().
  Status listen(std::string& address);

  // The others. Fails at once where the address does not exist: rank 0 is in another network
  // namespace.
  Status connect(const std::string& address);

  // All. Gives what the others have handed over, by rank, to be closed by the caller; nothing at
  // this rank's own place.
  Status swap(const Handed& mine, std::vector<Handed>& all);

 private:
  Status accept_all(std::vector<Handed>& all);
  Status send_to_all(const Handed& mine, const std::vector<Handed>& all) const;

  const int rank_;
  const int size_;
  int socket_ = -1;
  std::vector<int> peers_;  // rank 0: a socket for each other rank, by rank
};

}  // namespace kolo::shm
