#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "collectives/mpi/check.hpp"
#include "collectives/mpi/comm.hpp"
#include "collectives/mpi/runtime.hpp"
#include "collectives/shm/board.hpp"
#include "core/log.hpp"

namespace kolo {
namespace {

// Maps what the others have sent. A child that forks has no use for it.
Status map_peers(const std::vector<int>& descriptors, int mine, std::vector<shm::Segment>& mapped) {
  Status status;
  for (std::size_t rank = 0; rank < descriptors.size(); ++rank) {
    if (!status.is_ok() || static_cast<int>(rank) == mine) {
      close(descriptors[rank]);
      continue;
    }
    shm::Segment& segment = mapped.emplace_back();
    status = shm::Segment::adopt(descriptors[rank], segment);
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
        size_(size),
        arena_(std::move(arena)),
        exchange_(std::make_unique<shm::Exchange>(rank, size)) {}

  Status connect(const std::vector<int>& ranks, std::shared_ptr<shm::Node>& node) {
    std::string address;
    if (arena_ == nullptr) {
      why_ = Status::internal("it is turned off on a rank");
    } else {
      // What an earlier session has left there; nobody reads before all have agreed.
      why_ = arena_->segment().release_pages(0, shm::Board::kControlBytes);
    }
    if (why_.is_ok() && rank_ == 0) why_ = exchange_->listen(address);
    bool all = false;
    if (Status s = agree(all); !s.is_ok() || !all) return s;
    if (Status s = share_text(MpiParent{&comm_}, address); !s.is_ok()) return s;
    if (rank_ > 0) why_ = exchange_->connect(address);
    if (Status s = agree(all); !s.is_ok() || !all) return s;
    std::vector<int> descriptors;
    std::vector<shm::Segment> mapped;
    why_ = exchange_->swap(arena_->segment().descriptor(), descriptors);
    if (why_.is_ok()) why_ = map_peers(descriptors, rank_, mapped);
    if (Status s = agree(all); !s.is_ok() || !all) return s;
    std::vector<std::byte*> segments;
    for (int rank = 0, peer = 0; rank < size_; ++rank) {
      segments.push_back(rank == rank_ ? arena_->segment().data()
                                       : mapped[static_cast<std::size_t>(peer++)].data());
    }
    node = std::make_shared<shm::Node>(ranks, rank_, arena_, std::move(segments));
    node->keep(std::move(mapped), std::move(exchange_));
    return Status::ok();
  }

  const Status& why() const { return why_; }

 private:
  Status agree(bool& all) const {
    int fine = why_.is_ok() ? 1 : 0;
    const int code = MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_MIN, comm_);
    all = fine == 1;
    return check_mpi(code, "MPI_Allreduce");
  }

  const MPI_Comm comm_;
  const int rank_;
  const int size_;
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
