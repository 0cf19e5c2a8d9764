#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/mpi/check.hpp"
#include "collectives/mpi/comm.hpp"
#include "collectives/mpi/runtime.hpp"
#include "collectives/shm/exchange.hpp"
#include "collectives/shm/slots.hpp"
#include "core/log.hpp"

namespace kolo {
namespace {

// Maps what the others have sent; closes the descriptors of memory. A child that forks has no use
// for it.
Status map_peers(const std::vector<shm::Handed>& all, int mine, std::vector<shm::Segment>& mapped) {
  Status status;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == mine) continue;
    if (!status.is_ok()) {
      close(all[rank].memory);
      continue;
    }
    shm::Segment& segment = mapped.emplace_back();
    status = shm::Segment::adopt(all[rank].memory, segment);
    if (status.is_ok() && madvise(segment.data(), segment.size(), MADV_DONTFORK) != 0)
      status = Status::internal("madvise(MADV_DONTFORK) failed");
  }
  return status;
}

// The steps that can fail on one rank alone; between them all ranks of the node find out whether it
// has. Each takes the status so far and does nothing after a failure.
class Connection {
 public:
  Connection(MPI_Comm node, int rank, int size, std::shared_ptr<shm::Arena> arena)
      : comm_(node),
        rank_(rank),
        arena_(std::move(arena)),
        exchange_(std::make_unique<shm::Exchange>(rank, size)) {}

  Status connect(const std::vector<int>& ranks, std::shared_ptr<shm::Node>& node) {
    std::string address;
    if (arena_ == nullptr) {
      why_ = Status::internal("it is turned off on a rank");
    } else {
      // What an earlier session has left there; nobody reads before all have agreed.
      why_ = arena_->segment().release_pages(0, shm::kControlBytes);
    }
    if (why_.is_ok() && rank_ == 0) why_ = exchange_->listen(address);
    bool all = false;
    if (Status s = agree(all); !s.is_ok() || !all) return s;
    if (Status s = share_text(MpiParent{&comm_}, address); !s.is_ok()) return s;
    if (rank_ > 0) why_ = exchange_->connect(address);
    if (Status s = agree(all); !s.is_ok() || !all) return s;
    std::vector<shm::Handed> handed;
    std::vector<shm::Segment> mapped;
    int pipe_ends[2] = {-1, -1};
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) why_ = Status::internal("pipe2 failed");
    if (why_.is_ok())
      why_ = exchange_->swap({arena_->segment().descriptor(), pipe_ends[0]}, handed);
    if (pipe_ends[0] >= 0) close(pipe_ends[0]);
    if (!why_.is_ok()) exchange_.reset();  // the others need not wait for this rank
    if (why_.is_ok()) why_ = map_peers(handed, rank_, mapped);
    std::vector<int> lifelines;
    lifelines.reserve(handed.size());
    for (const shm::Handed& one : handed) lifelines.push_back(one.lifeline);
    auto made = std::make_shared<shm::Node>(ranks, rank_, arena_, segments_of(mapped));
    made->keep(std::move(mapped), std::move(lifelines), pipe_ends[1]);
    if (Status s = agree(all); !s.is_ok() || !all) return s;
    node = std::move(made);
    return Status::ok();
  }

  const Status& why() const { return why_; }

 private:
  // Where each rank's is, by rank, or nothing after a failure.
  std::vector<std::span<std::byte>> segments_of(const std::vector<shm::Segment>& mapped) const {
    std::vector<std::span<std::byte>> segments;
    if (!why_.is_ok()) return segments;
    segments.reserve(mapped.size() + 1);
    for (const shm::Segment& segment : mapped) segments.push_back(segment.bytes());
    segments.insert(segments.begin() + rank_, arena_->segment().bytes());
    return segments;
  }

  Status agree(bool& all) const {
    int fine = why_.is_ok() ? 1 : 0;
    const int code = MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_MIN, comm_);
    all = fine == 1;
    return check_mpi(code, "MPI_Allreduce");
  }

  const MPI_Comm comm_;
  const int rank_;
  const std::shared_ptr<shm::Arena> arena_;
  std::unique_ptr<shm::Exchange> exchange_;
  Status why_;
};

}  // namespace

Status connect_node(MpiParent given, const Topology& topology,
                    const std::shared_ptr<shm::Arena>& arena, std::shared_ptr<shm::Node>& node) {
  const MPI_Comm parent = comm_of(given);
  MPI_Comm comm = MPI_COMM_NULL;
  int code = MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, topology.rank, MPI_INFO_NULL, &comm);
  if (Status s = check_mpi(code, "MPI_Comm_split_type"); !s.is_ok()) return s;
  std::vector<int> ranks;
  Status status = gather_number(MpiParent{&comm}, topology.rank, ranks);
  if (status.is_ok() && topology.local_size > 1) {
    Connection connection(comm, topology.local_rank, topology.local_size, arena);
    status = connection.connect(ranks, node);
    if (status.is_ok() && node == nullptr && arena != nullptr && !connection.why().is_ok()) {
      log::warning("the ranks of this node cannot share memory, and use MPI instead: " +
                   connection.why().message());
    }
  }
  code = MPI_Comm_free(&comm);
  return status.is_ok() ? check_mpi(code, "MPI_Comm_free") : status;
}

}  // namespace kolo
