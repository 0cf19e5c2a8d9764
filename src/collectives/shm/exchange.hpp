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

// One process's part in the exchange. Rank 0 listens, and sends the others the address by other
// means. The others connect; when all have connected, all swap. A step that takes longer than the
// timeout fails. If an object is destroyed early, the other processes fail at once.
class Exchange {
 public:
  Exchange(int rank, int size) : rank_(rank), size_(size) {}
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Called on rank 0. `address` is text, for connect().
  Status listen(std::string& address);

  // Called on the other ranks. Fails at once if the address does not exist: rank 0 is in another
  // network namespace.
  Status connect(const std::string& address);

  // Called on all ranks. Returns what the others have handed over, by rank; nothing at this rank's
  // own place. The caller closes the descriptors.
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
