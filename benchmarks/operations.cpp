// kolo bench operations: kolo, MPI and, with --python, torch.distributed over gloo.
#include <algorithm>
#include <memory>
#include <utility>

#include "benchmarks/benchmarks.hpp"
#include "benchmarks/exchange.hpp"
#include "benchmarks/operation_contenders.hpp"
#include "benchmarks/rivals.hpp"
#include "benchmarks/sizes.hpp"
#include "benchmarks/tensors.hpp"

namespace kolo::bench {
namespace {

std::vector<Exchange> exchanges_of(Operation operation, const Group& group,
                                   const Options& options) {
  if (operation == Operation::kBarrier) {
    return {exchange_of(operation, 0, group.rank(), group.size())};
  }
  std::vector<Exchange> exchanges;
  for (const std::int64_t bytes : sizes_between(options.min_bytes, options.max_bytes)) {
    const auto elements = static_cast<std::size_t>(bytes) / sizeof(float);
    exchanges.push_back(exchange_of(operation, elements, group.rank(), group.size()));
  }
  return exchanges;
}

std::size_t most_elements(const std::vector<Exchange>& exchanges) {
  std::size_t most = 1;
  for (const Exchange& exchange : exchanges) {
    most = std::max(most, exchange.elements + exchange.output_elements());
  }
  return most;
}

Contenders contenders_for(const Exchange& exchange, Group& group, Rivals& rivals) {
  Contenders contenders;
  contenders.push_back(kolo_operation(group, exchange));
  if (auto into = kolo_into(group, exchange)) contenders.push_back(std::move(into));
  contenders.push_back(mpi_operation(group, exchange));
  rivals.add_operation(contenders, exchange);
  return contenders;
}

}  // namespace

void bench_operations(Group& group, const Options& options, const Publish& publish) {
  std::vector<Exchange> exchanges;
  for (const Operation operation : options.only) {
    if (operation == Operation::kSendrecv && group.size() == 1) {
      publish.note("sendrecv needs two ranks; left out");
      continue;
    }
    for (Exchange& exchange : exchanges_of(operation, group, options)) {
      exchanges.push_back(std::move(exchange));
    }
  }
  const Memory memory = usual_memory();
  Rivals rivals(group, options, publish);
  rivals.start_gloo(most_elements(exchanges));
  for (const Exchange& exchange : exchanges) {
    const auto bytes = static_cast<std::int64_t>(exchange.elements * sizeof(float));
    const std::string work = name_of(exchange.operation) + "/" + std::to_string(bytes) + "/" +
                             name_of(memory) + "/" + std::to_string(group.size());
    const Contenders contenders = contenders_for(exchange, group, rivals);
    publish.rows(
        measure_rows(group, contenders, schedule_of(options, bytes, group.size()), work, bytes));
  }
}

}  // namespace kolo::bench
