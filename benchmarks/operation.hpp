// The operations that `kolo bench operations` measures.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kolo::bench {

enum class Operation {
  kAllreduce,
  kGroupedAllreduce,
  kReduce,
  kBroadcast,
  kAllgather,
  kAlltoall,
  kReducescatter,
  kSendrecv,
  kBarrier
};

std::vector<Operation> all_operations();

// "allreduce", "grouped_allreduce", ...
std::string name_of(Operation operation);

// Nothing if there is none of that name.
std::optional<Operation> operation_of(const std::string& name);

}  // namespace kolo::bench
