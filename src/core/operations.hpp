// The table of operations: every kind of operation, and the traits in which the kinds differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kolo {

// The numbers travel in messages.
enum class OpKind : std::uint8_t {
  kAllreduce = 0,
  kBroadcast = 1,
  kAllgather = 2,
  kAlltoall = 3,
  kReducescatter = 4,
  kBarrier = 5,
  kJoin = 6,
  kAddProcessSet = 7,     // the shape of its tensor is the list of ranks
  kRemoveProcessSet = 8,  // the shape of its tensor is the number of the set
  kSend = 9,
  kClock = 10,  // its tensor is a ClockReading (collective.hpp)
  kReduce = 11,
};
inline constexpr int kOpKindCount = 12;

struct OperationTraits {
  const char* name;                   // in messages, metrics and the timeline
  bool has_own_rows = false;          // each rank has an extent of its own in dimension 0
  bool needs_root = false;            // the root must not have joined
  bool is_between_two = false;        // the root sends to the destination; no others take part
  bool changes_process_sets = false;  // carried out by the engine
  bool is_internal = false;           // kolo's own: not counted, never reported as a stall
  // Whether KOLO_GPU_<NAME> chooses what carries the operation out on a device: NCCL or the host.
  bool has_gpu_choice = false;
};

inline constexpr std::array<OperationTraits, kOpKindCount> kOperations = {{
    {.name = "allreduce", .has_gpu_choice = true},
    {.name = "broadcast", .needs_root = true, .has_gpu_choice = true},
    {.name = "allgather", .has_own_rows = true, .has_gpu_choice = true},
    {.name = "alltoall", .has_own_rows = true, .has_gpu_choice = true},
    {.name = "reducescatter", .has_gpu_choice = true},
    {.name = "barrier"},
    {.name = "join"},
    {.name = "add_process_set", .changes_process_sets = true},
    {.name = "remove_process_set", .changes_process_sets = true},
    {.name = "send", .is_between_two = true, .has_gpu_choice = true},
    {.name = "clock", .is_internal = true},
    {.name = "reduce", .needs_root = true},
}};

constexpr const OperationTraits& traits_of(OpKind kind) {
  return kOperations[static_cast<std::size_t>(kind)];
}
// Returns the kind of the collective that carries an operation out (docs/architecture.md says why a
// reduce is an allreduce).
constexpr OpKind carried_out_as(OpKind kind) {
  return kind == OpKind::kReduce ? OpKind::kAllreduce : kind;
}
constexpr const char* name_of(OpKind kind) {  // "allreduce"
  return traits_of(kind).name;
}
std::string upper_name_of(OpKind kind);  // "ALLREDUCE"

// The medium that carries a collective's data.
enum class Medium : std::uint8_t {
  kNone = 0,    // there is one rank
  kShm = 1,     // memory that the ranks share
  kMpi = 2,     // messages
  kStaged = 3,  // stages: within nodes, and between them
  kNccl = 4,    // NCCL, between devices
};

// Returns the name of a collective in the timeline: "SHM_ALLREDUCE".
std::string timeline_name_of(Medium medium, OpKind kind);

}  // namespace kolo
