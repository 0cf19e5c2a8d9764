#pragma once

#include <memory>
#include <vector>

#include "collectives/algorithms/table.hpp"
#include "core/config.hpp"
#include "core/topology.hpp"
#include "engine/engine.hpp"
#include "torch_ops/session/process_device.hpp"

namespace kolo {

// Returns the engine's options for these settings and this rank's place. `nodes`: see GroupOptions.
// The device must outlive the engine.
Engine::Options engine_options(const Config& config, const Topology& topology,
                               std::shared_ptr<const Lifelines> lifelines, std::vector<int> nodes,
                               AllreduceTable allreduce, ProcessDevice& device);

}  // namespace kolo
