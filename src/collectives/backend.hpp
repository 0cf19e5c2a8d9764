// Carries out the collectives of a group: over messages, or in memory that its ranks share. It
// makes works; the engine decides when they run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/memory.hpp"
#include "collectives/scaling.hpp"
#include "collectives/work.hpp"
#include "core/operations.hpp"

namespace kolo {

struct Levels;

// A collective's place in the order that all ranks of its group share: the sequence number of the
// decision, and which of the decision's collectives it is.
struct Turn {
  std::uint64_t sequence = 0;
  std::uint32_t part = 0;
};

// All ranks of the group make the same works with the same arguments (except data). Works of
// different sequence numbers are started and stepped in any order, as long as the numbers are less
// than kWindow apart. The parts of one sequence number come one after the other. Data belongs to
// the work until it is done. Results have the same bits on every rank and in every run.
class Backend {
 public:
  static constexpr std::uint64_t kWindow = 128;

  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Returns the work of a collective in which this rank takes part. Adasum only where the backend
  // offers it.
  virtual std::unique_ptr<Work> make(Turn turn, Collective collective) = 0;

  // Decides where the factors of an allreduce or reducescatter are applied. The caller multiplies
  // the values by `before`, with memory(), and makes the work with the returned reduction.
  virtual Scaling scaling_of(OpKind /*kind*/, const Reduction& reduction) const {
    return scaled_before(reduction);
  }

  // Whether works of such an operation that are parts of one decision may be started by
  // start_all(), which carries them out as one.
  virtual bool starts_together(OpKind /*kind*/, ReduceOp /*op*/) const { return false; }
  virtual Status start_all(std::span<const std::unique_ptr<Work>> /*works*/) {
    return Status::internal("this backend starts one work at a time");
  }

  // The medium that carries such an operation.
  virtual Medium medium(OpKind kind, ReduceOp op) const = 0;

  // Whether data of such an operation may lie on a device.
  virtual bool takes_device_memory(OpKind /*kind*/) const { return false; }

  // Whether a reducescatter may leave its data unchanged, and put the result elsewhere.
  virtual bool takes_result() const { return false; }

  // The levels of an allreduce in stages, within each node and between nodes. Null if this
  // backend's allreduce has no stages.
  virtual const Levels* levels() const { return nullptr; }

  // The memory that holds the data.
  virtual Memory& memory() { return host_memory(); }

  // Returns a zeroed buffer in the memory that suits collectives best.
  virtual std::shared_ptr<std::byte[]> make_buffer(std::size_t bytes) {
    return std::shared_ptr<std::byte[]>(new std::byte[bytes]());
  }
};

}  // namespace kolo
