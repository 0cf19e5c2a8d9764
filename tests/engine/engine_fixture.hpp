// Engines of several ranks in one process, over the local backend: ranks are threads. With
// KOLO_TEST_RANKS_PER_NODE in the environment they have nodes with so many ranks, and so
// collectives in shared memory, and who submits drives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/local/transport.hpp"
#include "engine/engine.hpp"

namespace kolo {

inline int ranks_per_node() {
  const char* text = std::getenv("KOLO_TEST_RANKS_PER_NODE");
  return text == nullptr ? 0 : std::atoi(text);
}

inline Engine::Options test_options() {
  Engine::Options options;
  options.group.tuning.chunk_bytes = 1024;
  options.group.tuning.allreduce.groups = {
      {2, {{0, AllreduceAlgorithm::kRecursiveDoubling}, {2048, AllreduceAlgorithm::kRing}}}};
  options.group.small_bytes = 2048;
  options.group.stall_check = std::chrono::seconds(60);  // as in programs: timers wake engines
  options.shutdown_timeout = std::chrono::seconds(20);
  options.backoff.computing_threads = 8;  // never spin: the ranks share two cores
  options.submitters_drive = ranks_per_node() > 0;
  return options;
}

// By rank; and fills which rank is on which.
inline std::vector<std::shared_ptr<shm::Node>> make_nodes(int size, std::vector<int>& numbers) {
  numbers.clear();
  if (ranks_per_node() == 0)
    return std::vector<std::shared_ptr<shm::Node>>(static_cast<std::size_t>(size));
  std::vector<std::shared_ptr<shm::Node>> nodes;
  for (int first = 0; first < size; first += ranks_per_node()) {
    std::vector<int> ranks;
    for (int rank = first; rank < std::min(size, first + ranks_per_node()); ++rank)
      ranks.push_back(rank);
    numbers.insert(numbers.end(), ranks.size(), first);
    auto made = shm::make_local_nodes(ranks, 256 << 20);
    // As where a rank is alone on its machine.
    if (made.size() == 1) made[0] = nullptr;
    nodes.insert(nodes.end(), made.begin(), made.end());
  }
  return nodes;
}

// A rank's program: gets the engine, and its transport to play a lost peer with.
using RankProgram = std::function<void(Engine&, Transport&)>;

inline void on_all_ranks(int size, const RankProgram& program,
                         Engine::Options options = test_options()) {
  std::vector<std::unique_ptr<Transport>> transports = make_local_transports(size);
  const std::vector<std::shared_ptr<shm::Node>> nodes = make_nodes(size, options.group.nodes);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&program, &options, &transport = transports[rank], &node = nodes[rank]] {
      Transport& raw = *transport;
      Engine engine(std::move(transport), node, options);
      program(engine, raw);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline std::shared_ptr<Operation> allreduce(const std::string& name, std::vector<float>& data,
                                            ReduceOp op = ReduceOp::Sum) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  operation->descriptor.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(data.size())}}};
  operation->descriptor.op = op;
  operation->tensors = {{data.data(), 0}};
  return operation;
}

inline Status submit_and_wait(Engine& engine, const std::shared_ptr<Operation>& operation) {
  if (Status status = engine.submit(operation); !status.is_ok()) return status;
  return engine.wait(operation, std::chrono::seconds(30));
}

// An operation without tensors.
inline std::shared_ptr<Operation> plain(OpKind kind, const std::string& name) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  operation->descriptor.kind = kind;
  return operation;
}

}  // namespace kolo
