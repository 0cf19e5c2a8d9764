// Engines of several ranks in one process, over the local backend: ranks are threads.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/local/transport.hpp"
#include "coordinator/engine.hpp"

namespace kolo {

inline Engine::Options test_options() {
  Engine::Options options;
  options.group.launch.tuning.chunk_bytes = 1024;
  options.group.launch.tuning.ring_threshold_bytes = 2048;
  options.shutdown_timeout = std::chrono::seconds(20);
  options.backoff.computing_threads = 8;  // never spin: the ranks share two cores
  return options;
}

// A rank's program: gets the engine, and its transport to play a lost peer with.
using Program = std::function<void(Engine&, Transport&)>;

inline void on_all_ranks(int size, const Program& program,
                         const Engine::Options& options = test_options()) {
  std::vector<std::unique_ptr<Transport>> transports = make_local_transports(size);
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&program, &transport, &options] {
      Transport& raw = *transport;
      Engine engine(std::move(transport), options);
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
