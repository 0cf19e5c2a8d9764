// Compares this rank's clock with rank 0's from time to time while a timeline is on.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/algorithms/algorithms.hpp"
#include "engine/engine.hpp"

namespace kolo {

class ClockReader {
 public:
  // The engine must outlive this. `process_set`: contains all ranks, and serves only this object.
  ClockReader(Engine& engine, int process_set) : engine_(engine), process_set_(process_set) {}

  // Takes a reading, waits for it, and adds it to the timeline. Collective. `run`: all ranks
  // receive rank 0's value in the reading.
  Status read(std::int64_t run, ClockReading& reading);

  // Begins a reading if it is due and the last one has ended. The other ranks do the same. The
  // result goes to the timeline. Afterwards readings() may differ between ranks.
  void read_now_and_then();

  // The number of readings begun.
  std::int64_t readings() const { return count_; }
  // Waits for readings that some ranks have begun. Collective; `count` is the largest of all ranks.
  Status catch_up(std::int64_t count);

 private:
  struct Reading {
    std::shared_ptr<ClockReading> result;
    std::shared_ptr<Operation> operation;  // null: not accepted
  };
  Reading begin(std::int64_t run);

  Engine& engine_;
  const int process_set_;
  std::int64_t count_ = 0;
  Reading last_;
  Clock::duration pause_ = std::chrono::seconds(1);
  Clock::time_point next_ = Clock::now() + pause_;
};

}  // namespace kolo
