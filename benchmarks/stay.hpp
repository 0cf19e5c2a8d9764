// When a rank was in a barrier, to tell whether the barrier held.
#pragma once

#include <string>

#include "benchmarks/harness.hpp"

namespace kolo::bench {

// Microseconds of CLOCK_MONOTONIC, which the processes of a node share.
struct Stay {
  double entered = 0;
  double left = 0;
};

double monotonic_microseconds();

// Collective. Says that this rank left before the last one of its node had entered; empty if it did
// not. Nodes have no common clock, so this says nothing of ranks on others.
std::string left_too_early(Ranks& ranks, const Stay& stay);

}  // namespace kolo::bench
