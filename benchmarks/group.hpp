// The ranks of the job over plain MPI, and what the plain twins use of it. With kolo/mpi.h the only
// place outside the mpi backend and the tests that knows <mpi.h>: in group.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness.hpp"

namespace kolo::bench {

// How an array is cut into the ranks' parts, as MPI takes it.
struct Cut {
  explicit Cut(std::vector<int> part_counts);
  std::vector<int> counts, displacements;
};

// MPI, for a process without kolo, while this lives.
class MpiRuntime {
 public:
  MpiRuntime();
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;
};

// A communicator of its own, a duplicate of MPI_COMM_WORLD. One thread at a time uses it, which
// is not kolo's: so MPI needs MPI_THREAD_MULTIPLE. All but rank() and size() are collective. Throws
// std::runtime_error if MPI fails.
class Group final : public Ranks {
 public:
  Group();  // after kolo::init() or MpiRuntime
  ~Group() override;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override;
  void largest(double* values, int count) override;
  void largest_on_node(double* values, int count) override;
  // Known where all ranks are on this node, each bound to cores that no other has.
  Distance distance() override;

  // A barrier that takes next to nothing of a core: late by up to 2 ms.
  void sleep_until_all();
  // Rank 0's line, of at most 255 bytes, on every rank, which sleeps until it comes.
  std::string sleep_until_told(const std::string& line);

  // The MPI calls that kolo is compared with, on float32: MPI_Allreduce in place, MPI_SUM;
  // MPI_Reduce to rank 0, MPI_SUM; MPI_Bcast from rank 0; MPI_Allgather; MPI_Alltoallv;
  // MPI_Reduce_scatter, MPI_SUM; MPI_Sendrecv.
  void allreduce_sum(float* data, std::size_t count);
  void reduce_sum(const float* in, std::size_t count, float* out);
  void broadcast(float* data, std::size_t count);
  void allgather(const float* in, std::size_t count, float* out);
  void alltoall(const float* in, const Cut& give, float* out, const Cut& take);
  void reducescatter_sum(const float* in, const Cut& give, float* out);
  void sendrecv(const float* in, std::size_t count, int to, float* out, int from);

  // MPI_Bcast from rank 0.
  void broadcast_bytes(void* data, std::size_t count);

  // Memory of the ranks of this node, of so many floats each; empty where they are not all of the
  // job's. Freed with the window, collectively.
  class Window {
   public:
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    const std::vector<float*>& by_rank() const { return by_rank_; }

   private:
    friend class Group;
    struct Handle;
    Window();
    const std::unique_ptr<Handle> handle_;
    std::vector<float*> by_rank_;
  };
  std::unique_ptr<Window> allocate_window(std::size_t floats);

  // By rank, which node it is on, as the first rank there.
  std::vector<int> nodes();

  // By rank; empty on ranks other than 0. A text longer than 255 bytes is cut.
  std::vector<std::string> gather(const std::string& text);

 private:
  struct Comm;

  bool have_cores_of_their_own() const;
  double round_trip(int first);

  const std::unique_ptr<Comm> comm_;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<Window> lines_;  // empty: distances are not known
  std::uint32_t round_trips_ = 0;
};

// "Open MPI v5.0.8, package: ...", after kolo::init().
std::string mpi_library_version();

// Ends the whole job: for failures that the other ranks do not know of.
[[noreturn]] void abort_job(int code);

}  // namespace kolo::bench
