// How fast an allreduce can be at all. On one node, by its memory: the ranks together read each
// tensor once and write each once, with kolo's kernel, and agree on nothing but the beginning and
// the end. With one rank on each of several nodes, by their links: each rank sends the next one,
// in one message, as many bytes as a rank must send on average in any allreduce.
#pragma once

#include <cstddef>
#include <memory>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"

namespace kolo::bench {

// Collective. Null where the ranks are not all on one node.
std::unique_ptr<Contender> make_memory_limit(Group& group, std::size_t elements);

// Collective. Null unless each rank is alone on its node.
std::unique_ptr<Contender> make_link_limit(Group& group, std::size_t elements);

}  // namespace kolo::bench
