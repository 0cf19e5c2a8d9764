#include "torch_ops/session/engine_options.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/cores.hpp"

namespace kolo {
namespace {

// By default, Prometheus scrapes four times a minute.
constexpr Clock::duration kMetricsEvery = std::chrono::seconds(2);

// Returns the number of threads as LibTorch chooses it, which ignores quotas.
int computing_threads() {
  const char* text = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): in init()
  const int threads = text == nullptr ? 0 : std::atoi(text);
  return threads > 0 ? threads : static_cast<int>(cpu_access().cores.size());
}

}  // namespace

Engine::Options engine_options(const Config& config, const Topology& topology,
                               std::shared_ptr<const Lifelines> lifelines, std::vector<int> nodes,
                               AllreduceTable allreduce, ProcessDevice& device) {
  Engine::Options options;
  options.group.lifelines = std::move(lifelines);
  options.group.nodes = std::move(nodes);
  options.group.tuning.chunk_bytes = static_cast<std::size_t>(config.chunk_bytes);
  options.group.tuning.allreduce = std::move(allreduce);
  options.group.limits.bucket_bytes = static_cast<std::size_t>(config.fusion_threshold_bytes);
  options.group.limits.tensor_bytes = static_cast<std::size_t>(config.fusion_tensor_limit_bytes);
  // A single rank gains nothing from packing.
  options.group.limits.device_bucket_bytes =
      topology.size == 1 ? 0 : static_cast<std::size_t>(config.cuda_fusion_threshold_bytes);
  options.group.find_device = [&device](std::shared_ptr<Device>& found) {
    return device.find(std::nullopt, found);
  };
  options.group.fusion_tensor_bytes =
      config.disable_group_fusion ? 0 : options.group.limits.tensor_bytes;
  options.group.cache_capacity = static_cast<std::size_t>(config.cache_capacity);
  options.group.fusion_hold = seconds(config.fusion_hold_seconds);
  options.group.collective_timeout = seconds(config.collective_timeout_seconds);
  options.group.stall_check = seconds(config.stall_check_seconds);
  options.group.stall_shutdown = seconds(config.stall_shutdown_seconds);
  // A missing tensor of a bucket is known only once the bucket has been given up.
  if (config.stall_check_seconds > 0)
    options.group.fusion_hold = std::min(options.group.fusion_hold, options.group.stall_check);
  if (config.metrics_port > 0) options.group.metrics_every = kMetricsEvery;
  options.shutdown_timeout = seconds(config.shutdown_timeout_seconds);
  options.backoff.spin = std::chrono::microseconds(config.spin_microseconds);
  options.backoff.cores_per_rank = topology.cores;
  options.backoff.computing_threads = computing_threads();
  options.submitters_drive = options.backoff.cores_per_rank < options.backoff.computing_threads + 1;
  return options;
}

}  // namespace kolo
