// The `mpi` backend: messages on a duplicated communicator.
#include <mpi.h>

#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "collectives/mpi/check.hpp"
#include "collectives/mpi/comm.hpp"
#include "collectives/mpi/cuda_aware.hpp"
#include "collectives/mpi/runtime.hpp"
#include "core/log.hpp"

namespace kolo {
namespace {

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, int rank, int size, Tag max_tag, bool takes_device_memory)
      : comm_(comm),
        rank_(rank),
        size_(size),
        max_tag_(max_tag),
        takes_device_memory_(takes_device_memory) {}

  // Nothing is in flight: after a failure the engine does not destroy its transport.
  ~MpiTransport() override {
    const Status status = check_mpi(MPI_Comm_free(&comm_), "MPI_Comm_free");
    if (!status.is_ok()) log::warning(status.message());
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Tag max_tag() const override { return max_tag_; }
  bool takes_device_memory() const override { return takes_device_memory_; }

  Status send(const void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    const int index = take_request();
    Request& request = requests_[index];
    const int code = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, static_cast<int>(tag),
                               comm_, &request.mpi);
    return started(index, code, "MPI_Isend", peer, kSending, ticket);
  }

  Status receive(void* data, std::size_t bytes, int peer, Tag tag, Ticket& ticket) override {
    const int index = take_request();
    Request& request = requests_[index];
    const int code = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, static_cast<int>(tag),
                               comm_, &request.mpi);
    return started(index, code, "MPI_Irecv", peer, static_cast<std::int64_t>(bytes), ticket);
  }

  Progress poll(Ticket& ticket, Status& status) override {
    Request& request = requests_[ticket.request];
    int done = 0;
    MPI_Status mpi_status;
    const int code = MPI_Test(&request.mpi, &done, &mpi_status);
    if (code == MPI_SUCCESS && done == 0) return Progress::kWaiting;
    Status result = check_mpi(code, request.expected == kSending ? "sending" : "receiving", comm_);
    if (result.is_ok()) result = check_length(request, mpi_status);
    const int peer = request.peer;
    release(ticket.request);
    ticket.request = -1;
    if (result.is_ok()) return Progress::kDone;
    status = Status(result.code(), "rank " + std::to_string(rank_) + ", peer rank " +
                                       std::to_string(peer) + ": " + result.message());
    return Progress::kFailed;
  }

  int world_peer(const Ticket& ticket) const override { return requests_[ticket.request].peer; }

  Status probe(Tag tag, std::optional<Arrival>& arrival) override {
    int found = 0;
    MPI_Status mpi_status;
    const int code = MPI_Iprobe(MPI_ANY_SOURCE, static_cast<int>(tag), comm_, &found, &mpi_status);
    arrival.reset();
    if (Status s = check_mpi(code, "MPI_Iprobe", comm_); !s.is_ok() || found == 0) return s;
    int bytes = 0;
    Status s = check_mpi(MPI_Get_count(&mpi_status, MPI_BYTE, &bytes), "MPI_Get_count");
    if (s.is_ok()) arrival = Arrival{mpi_status.MPI_SOURCE, static_cast<std::size_t>(bytes)};
    return s;
  }

 private:
  static constexpr std::int64_t kSending = -1;

  struct Request {
    MPI_Request mpi = MPI_REQUEST_NULL;
    int peer = -1;
    std::int64_t expected = kSending;  // bytes of a receive
  };

  int take_request() {
    if (free_.empty()) {
      requests_.emplace_back();
      return static_cast<int>(requests_.size()) - 1;
    }
    const int index = free_.back();
    free_.pop_back();
    return index;
  }

  void release(int index) {
    requests_[index] = Request{};
    free_.push_back(index);
  }

  Status started(int index, int code, const char* call, int peer, std::int64_t expected,
                 Ticket& ticket) {
    requests_[index].peer = peer;
    requests_[index].expected = expected;
    Status status = check_mpi(code, call, comm_);
    if (status.is_ok()) {
      ticket.request = index;
    } else {
      release(index);
    }
    return status;
  }

  Status check_length(const Request& request, const MPI_Status& mpi_status) const {
    if (request.expected == kSending) return Status::ok();
    int bytes = 0;
    if (Status s = check_mpi(MPI_Get_count(&mpi_status, MPI_BYTE, &bytes), "MPI_Get_count");
        !s.is_ok()) {
      return s;
    }
    if (bytes == request.expected) return Status::ok();
    return Status::internal("expected a message of " + std::to_string(request.expected) +
                            " bytes and got " + std::to_string(bytes));
  }

  MPI_Comm comm_;
  const int rank_;
  const int size_;
  const Tag max_tag_;
  const bool takes_device_memory_;
  std::deque<Request> requests_;
  std::vector<int> free_;
};

Status largest_tag(MPI_Comm comm, Tag& tag) {
  void* value = nullptr;
  int found = 0;
  if (Status s = check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&value), &found),
                           "MPI_Comm_get_attr");
      !s.is_ok()) {
    return s;
  }
  tag = found != 0 ? static_cast<Tag>(*static_cast<int*>(value)) : 32767;  // MPI's minimum
  return Status::ok();
}

}  // namespace

Status make_mpi_transport(MpiParent parent, std::optional<bool> takes_device_memory,
                          std::unique_ptr<Transport>& transport) {
  MPI_Comm comm = MPI_COMM_NULL;
  if (Status s = check_mpi(MPI_Comm_dup(comm_of(parent), &comm), "MPI_Comm_dup"); !s.is_ok())
    return s;
  Status s = check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0;
  int size = 0;
  Tag max_tag = 0;
  if (s.is_ok()) s = check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  if (s.is_ok()) s = check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (s.is_ok()) s = largest_tag(comm, max_tag);
  int takes_it = takes_device_memory.value_or(mpi_is_cuda_aware()) ? 1 : 0;
  if (s.is_ok()) {
    const int code = MPI_Allreduce(MPI_IN_PLACE, &takes_it, 1, MPI_INT, MPI_MIN, comm);
    s = check_mpi(code, "MPI_Allreduce", comm);
  }
  if (s.is_ok()) {
    transport = std::make_unique<MpiTransport>(comm, rank, size, max_tag, takes_it != 0);
    return s;
  }
  const Status freed = check_mpi(MPI_Comm_free(&comm), "MPI_Comm_free");
  if (!freed.is_ok()) log::warning(freed.message());
  return s;
}

}  // namespace kolo
