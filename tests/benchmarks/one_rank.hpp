// A job of one rank, for what needs Ranks.
#pragma once

#include "benchmarks/harness.hpp"

namespace kolo::bench {

class OneRank : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void largest(double* /*values*/, int /*count*/) override {}
  void largest_on_node(double* /*values*/, int /*count*/) override {}
};

}  // namespace kolo::bench
