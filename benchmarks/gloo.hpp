// torch.distributed over gloo, measured beside the others: each rank has a child process, a Python
// that has torch, which runs gloo_child.py.
//
// Where the tensors are: the contender fills and checks memory that rank and child share. Before
// each sample the child copies it into tensors of its own, whose memory is private as that of the
// other contenders, and afterwards the result back; neither is timed. The time is the child's own,
// from the line that tells it to begin to its completion. The child is not bound to cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/child.hpp"
#include "benchmarks/exchange.hpp"
#include "benchmarks/harness.hpp"
#include "benchmarks/models.hpp"
#include "benchmarks/shared_memory.hpp"

namespace kolo::bench {

// What is timed of torch.distributed.checkpoint: save(), async_save() until it returns, load().
enum class CheckpointWork : std::uint8_t { kSave, kStall, kRestore };

// Used by the thread that made it, which outlives it. All members but torch_version() are
// collective.
class Gloo {
 public:
  static constexpr double kDeadlineSeconds = 60;

  // Starts the children, which find each other at `host`, rank 0's. shared_elements: of the largest
  // input with its output. deadline_seconds: for each wait. `threads`: of each child's torch.
  // Throws RunFailed.
  Gloo(Ranks& ranks, const std::string& python, const std::string& host,
       std::size_t shared_elements, double deadline_seconds = kDeadlineSeconds, int threads = 1);

  const std::string& torch_version() const { return torch_version_; }

  struct Offer {
    std::unique_ptr<Contender> contender;  // as long as the Gloo; the latest one alone is usable
    std::string missing;                   // why there is none
  };
  // Has the children carry out the operation once. Throws RunFailed.
  Offer offer(const Exchange& exchange);

  // "ddp-gloo": backward() of a DistributedDataParallel of these parameters, with the loss of
  // benchmarks/backward.hpp. As an offer's contender. Throws RunFailed.
  std::unique_ptr<Contender> data_parallel(const std::vector<Parameter>& parameters);

  // "dcp": torch.distributed.checkpoint, of tensors that all ranks have, in this folder, which is
  // made. As an offer's contender. Throws RunFailed.
  std::unique_ptr<Contender> checkpoint(const std::vector<Parameter>& parameters,
                                        CheckpointWork work, const std::string& folder);

 private:
  void start(const std::string& python, double deadline_seconds, int threads);

  Ranks& ranks_;  // outlives this
  const SharedMemory memory_;
  std::unique_ptr<Child> child_;
  std::string torch_version_;
};

}  // namespace kolo::bench
