// How fast a reduction in shared memory can be at all: the ranks together read each tensor once and
// write each once, with kolo's kernel, and agree on nothing but the beginning and the end.
#pragma once

#include <cstddef>
#include <memory>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"

namespace kolo::bench {

// Collective. Null where the ranks are not all on one node.
std::unique_ptr<Contender> make_limit(Group& group, std::size_t elements);

}  // namespace kolo::bench
