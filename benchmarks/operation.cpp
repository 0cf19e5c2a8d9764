#include "benchmarks/operation.hpp"

namespace kolo::bench {
namespace {

struct Named {
  Operation operation;
  const char* name;
};

constexpr Named kOperations[] = {
    {Operation::kAllreduce, "allreduce"},
    {Operation::kGroupedAllreduce, "grouped_allreduce"},
    {Operation::kReduce, "reduce"},
    {Operation::kBroadcast, "broadcast"},
    {Operation::kAllgather, "allgather"},
    {Operation::kAlltoall, "alltoall"},
    {Operation::kReducescatter, "reducescatter"},
    {Operation::kSendrecv, "sendrecv"},
    {Operation::kBarrier, "barrier"},
};

}  // namespace

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (const Named& one : kOperations) all.push_back(one.operation);
  return all;
}

std::string name_of(Operation operation) {
  for (const Named& one : kOperations) {
    if (one.operation == operation) return one.name;
  }
  return "";
}

std::optional<Operation> operation_of(const std::string& name) {
  for (const Named& one : kOperations) {
    if (one.name == name) return one.operation;
  }
  return std::nullopt;
}

}  // namespace kolo::bench
