#include "torch_ops/session/session.hpp"

#include <unistd.h>

#include <utility>

#include "collectives/mpi/node.hpp"
#include "core/host.hpp"
#include "core/log.hpp"
#include "torch_ops/session/engine_options.hpp"

namespace kolo {

Session::Session(const Config& config, const Topology& topology, std::int64_t job,
                 std::unique_ptr<Transport> transport, const NodeConnection& node,
                 std::vector<int> nodes, AllreduceTable allreduce)
    : config_(config),
      topology_(topology),
      lifelines_(node.lifelines),
      node_(node.node),
      device_(config, topology),
      engine_(std::move(transport), node_,
              engine_options(config, topology, node.lifelines, std::move(nodes),
                             std::move(allreduce), device_)) {
  timeline::FlightOrigin origin;
  origin.rank = topology.rank;
  origin.size = topology.size;
  origin.host = host_name();
  origin.process = ::getpid();
  origin.job = job;
  origin.folder = config.flight_recorder_folder.empty() ? timeline::default_flight_folder(job)
                                                        : config.flight_recorder_folder;
  engine_.tracing().set_flight(origin);
  watcher_.emplace(engine_.tracing(), timeline::Watcher::Options{
                                          seconds(config.stall_check_seconds), topology.rank == 0});
  if (config.metrics_port > 0 && topology.rank == 0) serve_metrics();
}

// A failure is only logged, because the job can run without the metrics.
void Session::serve_metrics() {
  const Status status = MetricsServer::start(
      config_.metrics_address, static_cast<int>(config_.metrics_port),
      [this] {
        timeline::Tracing& tracing = engine_.tracing();
        tracing.board().keep(0, tracing.measures());
        return tracing.board().text();
      },
      metrics_);
  if (!status.is_ok()) log::warning(status.message());
}

Session::~Session() {
  shut_down();
}

// Ends the timeline last, because the engine adds to it until the engine has ended.
bool Session::shut_down() {
  engine_.tracing().keep_quiet();
  const bool well = engine_.shut_down();
  watcher_.reset();
  metrics_.reset();
  end_timeline();
  return well;
}

void Session::begin_timeline(std::unique_ptr<ClockReader> clock, std::function<void()> at_end) {
  clock_ = std::move(clock);
  at_timeline_end_ = std::move(at_end);
}

void Session::end_timeline() {
  if (at_timeline_end_) std::exchange(at_timeline_end_, nullptr)();
  engine_.tracing().stop();
  clock_.reset();
}

}  // namespace kolo
