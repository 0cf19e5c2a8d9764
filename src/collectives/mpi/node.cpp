#include "collectives/mpi/node.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "collectives/mpi/check.hpp"
#include "collectives/mpi/comm.hpp"
#include "collectives/shm/exchange.hpp"
#include "collectives/shm/layout.hpp"
#include "core/log.hpp"

namespace kolo {
namespace {

// Maps the memory that the other ranks have sent. A forked child does not inherit the mappings.
Status map_peers(std::vector<shm::Handed>& all, int mine, std::vector<shm::Segment>& mapped) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == mine) continue;
    shm::Segment& segment = mapped.emplace_back();
    Status status = shm::Segment::adopt(std::exchange(all[rank].memory, -1), segment);
    if (status.is_ok() && madvise(segment.data(), segment.size(), MADV_DONTFORK) != 0)
      status = Status::internal("madvise(MADV_DONTFORK) failed");
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

// Gathers the ranks' process IDs as this process sees them: -1 for one in another PID namespace.
Status gather_processes(MPI_Comm node, std::vector<pid_t>& processes) {
  constexpr ino_t kLowBits = 0x7fffffff;  // these differ between the namespaces of a kernel
  struct stat file {};
  // /proc may belong to another namespace than this process.
  std::error_code error;
  const std::string seen = std::filesystem::read_symlink("/proc/self", error).string();
  const bool known = seen == std::to_string(getpid()) && stat("/proc/self/ns/pid", &file) == 0;
  const int own_space = known ? static_cast<int>(file.st_ino & kLowBits) : -1;
  std::vector<int> spaces;
  if (Status s = gather_number(MpiParent{&node}, own_space, spaces); !s.is_ok()) return s;
  if (Status s = gather_number(MpiParent{&node}, getpid(), processes); !s.is_ok()) return s;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (!known || spaces[i] != own_space) processes[i] = -1;
  }
  return Status::ok();
}

// Connects the ranks of a node. After each step that can fail on one rank alone the ranks call
// all_are(), so that no rank waits for one that has given up. connect() returns an error only if
// MPI fails.
class Connection {
 public:
  Connection(MPI_Comm node, std::vector<int> ranks, std::vector<pid_t> processes, int rank,
             std::shared_ptr<shm::Arena> arena)
      : comm_(node),
        ranks_(std::move(ranks)),
        processes_(std::move(processes)),
        rank_(rank),
        arena_(std::move(arena)) {}

  Status connect(NodeConnection& made) {
    // Clears what an earlier session left there. No peer reads it before all ranks have agreed.
    if (arena_ != nullptr) no_memory_ = arena_->segment().release_pages(0, shm::kControlBytes);
    std::vector<shm::Handed> handed(ranks_.size());
    bool all = false;
    Status status = swap(handed, all);
    if (status.is_ok() && all) {
      made.lifelines = lifelines_;
      status = share_memory(handed, made);
    }
    for (const shm::Handed& one : handed) {
      if (one.memory >= 0) close(one.memory);
    }
    return status;
  }

  // Warns about what the ranks of the node cannot use because of this rank.
  void warn() const {
    if (!no_lifelines_.is_ok()) {
      log::warning(
          "the ranks of this node cannot connect, so they share no memory and do not notice when "
          "one of them ends: " +
          no_lifelines_.message());
    }
    if (!no_memory_.is_ok()) {
      log::warning("the ranks of this node cannot share memory, and use MPI instead: " +
                   no_memory_.message());
    }
  }

 private:
  // Exchanges descriptors with the other ranks. `all`: whether this succeeded on every rank.
  Status swap(std::vector<shm::Handed>& handed, bool& all) {
    auto exchange = std::make_unique<shm::Exchange>(rank_, static_cast<int>(ranks_.size()));
    std::string address;
    if (rank_ == 0) no_lifelines_ = exchange->listen(address);
    if (Status s = all_are(no_lifelines_.is_ok(), all); !s.is_ok() || !all) return s;
    if (Status s = share_text(MpiParent{&comm_}, address); !s.is_ok()) return s;
    if (rank_ > 0) no_lifelines_ = exchange->connect(address);
    if (Status s = all_are(no_lifelines_.is_ok(), all); !s.is_ok() || !all) return s;
    int pipe_ends[2] = {-1, -1};
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) no_lifelines_ = Status::internal("pipe2 failed");
    if (no_lifelines_.is_ok()) {
      const bool shares = arena_ != nullptr && no_memory_.is_ok();
      const int memory = shares ? arena_->segment().descriptor() : -1;
      no_lifelines_ = exchange->swap({pipe_ends[0], memory}, handed);
    }
    if (pipe_ends[0] >= 0) close(pipe_ends[0]);
    std::vector<Lifelines::Peer> peers;
    peers.reserve(handed.size());
    for (std::size_t i = 0; i < handed.size(); ++i)
      peers.push_back({ranks_[i], handed[i].lifeline, processes_[i]});
    lifelines_ = std::make_shared<Lifelines>(std::move(peers), pipe_ends[1]);
    if (!no_lifelines_.is_ok()) exchange.reset();  // the others need not wait for this rank
    return all_are(no_lifelines_.is_ok(), all);
  }

  Status share_memory(std::vector<shm::Handed>& handed, NodeConnection& made) {
    const auto has_none = [&](const shm::Handed& one) {
      return &one != &handed[static_cast<std::size_t>(rank_)] && one.memory < 0;
    };
    const bool shares = arena_ != nullptr && no_memory_.is_ok() &&
                        std::none_of(handed.begin(), handed.end(), has_none);
    std::vector<shm::Segment> mapped;
    if (shares) no_memory_ = map_peers(handed, rank_, mapped);
    bool all = false;
    if (Status s = all_are(shares && no_memory_.is_ok(), all); !s.is_ok() || !all) return s;
    std::vector<std::span<std::byte>> segments;
    segments.reserve(handed.size());
    for (const shm::Segment& segment : mapped) segments.push_back(segment.bytes());
    segments.insert(segments.begin() + rank_, arena_->segment().bytes());
    made.node = std::make_shared<shm::Node>(ranks_, rank_, arena_, std::move(segments));
    made.node->keep(std::move(mapped));
    return Status::ok();
  }

  Status all_are(bool fine, bool& all) const {
    int least = fine ? 1 : 0;
    const int code = MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, comm_);
    all = least == 1;
    return check_mpi(code, "MPI_Allreduce");
  }

  const MPI_Comm comm_;
  const std::vector<int> ranks_;        // of the node, in the world
  const std::vector<pid_t> processes_;  // by index in ranks_
  const int rank_;                      // in the node
  const std::shared_ptr<shm::Arena> arena_;
  std::shared_ptr<Lifelines> lifelines_;
  Status no_lifelines_;
  Status no_memory_;
};

}  // namespace

Status connect_node(MpiParent given, const Topology& topology,
                    const std::shared_ptr<shm::Arena>& arena, NodeConnection& made) {
  const MPI_Comm parent = comm_of(given);
  MPI_Comm comm = MPI_COMM_NULL;
  int code = MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, topology.rank, MPI_INFO_NULL, &comm);
  if (Status s = check_mpi(code, "MPI_Comm_split_type"); !s.is_ok()) return s;
  std::vector<int> ranks;
  Status status = gather_number(MpiParent{&comm}, topology.rank, ranks);
  std::vector<pid_t> processes;
  if (status.is_ok()) status = gather_processes(comm, processes);
  if (status.is_ok() && topology.local_size > 1) {
    Connection connection(comm, std::move(ranks), std::move(processes), topology.local_rank, arena);
    status = connection.connect(made);
    if (status.is_ok()) connection.warn();
  }
  code = MPI_Comm_free(&comm);
  return status.is_ok() ? check_mpi(code, "MPI_Comm_free") : status;
}

}  // namespace kolo
