// Measures this rank's clock against rank 0's now and then while a timeline is on.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/algorithms/algorithms.hpp"
#include "engine/engine.hpp"

namespace kolo {

class ClockReader {
 public:
  // The engine outlives this. `process_set`: of all ranks, for this alone.
  ClockReader(Engine& engine, int process_set) : engine_(engine), process_set_(process_set) {}

  // Collective. Waits for the result and adds it to the timeline. `run`: what all ranks get from
  // rank 0.
  Status read(std::int64_t run, ClockReading& reading);

  // Begins a reading if it is time for one and the last one has ended. The others do the same; the
  // result goes to the timeline. Afterwards readings() may differ between ranks.
  void read_now_and_then();

  // The number of readings that were begun.
  std::int64_t readings() const { return count_; }
  // Collective, with the largest count of all ranks: waits for readings that some have begun.
  Status catch_up(std::int64_t count);

 private:
  struct Reading {
    std::shared_ptr<ClockReading> result;
    std::shared_ptr<Operation> operation;  // null: not taken
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
