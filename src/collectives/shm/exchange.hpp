// How the processes of a node give each other descriptors of what they share: over a Unix socket
// with a random name, of processes of one user alone. Nothing is left in any file system.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/status.hpp"

namespace kolo::shm {

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

  // All. Gives descriptors of the others' files, by rank, to be closed by the caller; mine at my
  // own place, duplicated.
  Status swap(int mine, std::vector<int>& all);

  // After swap(): a process that has ended since, or destroyed its part. Rank 0 sees all others,
  // the others see rank 0.
  std::optional<int> gone() const;

 private:
  Status accept_all(std::vector<int>& all);
  Status send_to_all(const std::vector<int>& all) const;

  const int rank_;
  const int size_;
  int socket_ = -1;
  std::vector<int> peers_;  // rank 0: a socket for each other rank, by rank
};

}  // namespace kolo::shm
