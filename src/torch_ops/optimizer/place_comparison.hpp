#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kolo/handle.h"
#include "kolo/optimizer.h"

namespace kolo::detail {

// Counts an optimizer's steps and reductions, and compares the counts with the other ranks' in each
// reduction, so that gradients of different passes are not mixed. Also counts the ranks that take
// part.
class PlaceComparison {
 public:
  // The options must outlive the object.
  explicit PlaceComparison(const DistributedOptimizerOptions& options) : options_(options) {}

  // Starts the comparison that belongs to a reduction. Collective, as check() is.
  void submit();
  // Instead of submit(): tells the other ranks, which then get an error, why this one cannot
  // reduce.
  void give_up(const std::string& why) const;
  // Waits for the comparison that was started, if there is one. Throws MismatchError, on all ranks
  // or on none, if the ranks are at different places.
  void check();

  void end_reduction() { ++reductions_; }
  void end_step();
  // Counts from 0 again, as all ranks do after join().
  void start_over();

  // Calls of step() since the last join().
  std::int64_t steps() const { return steps_; }
  // Ranks that took part in the last comparison. Ranks that have joined do not.
  std::int64_t ranks() const { return ranks_; }

 private:
  std::string name() const;
  [[noreturn]] void report_difference() const;

  const DistributedOptimizerOptions& options_;
  std::int64_t steps_ = 0;
  std::int64_t reductions_ = 0;  // since the last step()
  std::int64_t ranks_ = 1;
  std::optional<Handle> in_flight_;
};

}  // namespace kolo::detail
