// Who reduces a list of tensors: each contender has tensors of its own, of the same sizes. MPI's
// are in private memory, which is what a program without kolo has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"
#include "benchmarks/models.hpp"
#include "benchmarks/tensors.hpp"

namespace kolo::bench {

// One tensor by kolo::allreduce_(), synchronous. Names begin with `prefix` here and below, and must
// be the contender's own.
std::unique_ptr<Contender> kolo_synchronous(const Group& group, const Parameter& parameter,
                                            const std::string& prefix, Memory memory);

// The same of a tensor of as many bfloat16, in the arena.
std::unique_ptr<Contender> kolo_bfloat16(const Group& group, const Parameter& parameter,
                                         const std::string& prefix);

// All gradients submitted in the order of backward (the last parameter first), or shuffled: in
// another random order on each rank and in each run; then all awaited. Their names are the same in
// each run, or new.
enum class Order { kBackward, kShuffled };
enum class Names { kKnown, kNew };
std::unique_ptr<Contender> kolo_gradients(const Group& group,
                                          const std::vector<Parameter>& parameters,
                                          const std::string& prefix, Order order, Names names);

// MPI_Allreduce of one tensor after the other, in the order of backward.
std::unique_ptr<Contender> mpi_one_by_one(Group& group, const std::vector<Parameter>& parameters);

// Copied into one buffer, which is reduced in pieces of piece_bytes, and back.
std::unique_ptr<Contender> mpi_fused(Group& group, const std::vector<Parameter>& parameters,
                                     std::size_t piece_bytes);

}  // namespace kolo::bench
