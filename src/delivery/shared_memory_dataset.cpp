#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/control_group.hpp"
#include "core/host.hpp"
#include "data/samples.hpp"
#include "delivery/node_memory.hpp"
#include "delivery/places.hpp"
#include "delivery/tensors.hpp"
#include "kolo/data/shared_memory.h"
#include "kolo/error.h"
#include "kolo/objects.h"
#include "torch_ops/session/session.hpp"

namespace kolo::data {
namespace {

constexpr std::size_t kSamplesAtOnce = 64;
constexpr std::chrono::seconds kPatience{120};  // for ranks to fetch the loaded samples

// Collective. Returns the texts of all ranks.
std::vector<std::string> gather(const std::string& text) {
  return kolo::detail::allgather_bytes([&] { return text; },
                                       OperationOptions("kolo.shared_memory_dataset"));
}

// Collective. Throws on all ranks if one reports a problem.
void require_none(const std::string& problem) {
  const std::vector<std::string> problems = gather(problem);
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (!problems[rank].empty())
      throw DataError("SharedMemoryDataset: rank " + std::to_string(rank) + ": " + problems[rank]);
  }
}

// Returns places with the form of the first batch, but room for all samples.
delivery::BatchPlaces places_of_all(const Batch& first, std::size_t samples) {
  delivery::Parcel all;
  for (const at::Tensor& tensor : {first.data, first.target}) {
    if (!tensor.defined()) continue;
    delivery::Array array = delivery::to_parcel({tensor, {}}).arrays.at(0);
    const std::size_t bytes_each = array.bytes.size() / static_cast<std::size_t>(array.shape[0]);
    array.shape[0] = static_cast<std::int64_t>(samples);
    array.bytes = {array.bytes.data(), bytes_each * samples};  // only the size is used
    all.arrays.push_back(std::move(array));
  }
  return delivery::place(all);
}

std::vector<std::size_t> samples_from(std::size_t first, std::size_t size) {
  std::vector<std::size_t> indices(std::min(kSamplesAtOnce, size - first));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

void copy_rows(const at::Tensor& from, at::Tensor& to, std::size_t first) {
  const bool is_alike = from.defined() == to.defined() &&
                        (!to.defined() || (from.scalar_type() == to.scalar_type() &&
                                           from.sizes().slice(1) == to.sizes().slice(1)));
  if (!is_alike) {
    throw DataError("a sample from number " + std::to_string(first) +
                    " on has another shape or dtype than the first one; all must be alike");
  }
  if (to.defined()) to.narrow(0, static_cast<std::int64_t>(first), from.size(0)).copy_(from);
}

// Reads all samples into new memory.
delivery::NodeMemory load(const Dataset& dataset) {
  const std::size_t size = dataset.size();
  if (size == 0) throw DataError("the dataset has no samples");
  Batch batch = dataset.get_batch(samples_from(0, size));
  const delivery::BatchPlaces places = places_of_all(batch, size);
  if (const std::uint64_t available = available_memory(); places.size > available) {
    throw DataError("the samples need " + std::to_string(places.size >> 20U) +
                    " MiB of memory, and host " + host_name() + " has " +
                    std::to_string(available >> 20U) +
                    " MiB left; read them from files instead (HDF5Dataset)");
  }
  delivery::NodeMemory memory(places);
  Batch all = delivery::to_batch(memory.arrays());
  for (std::size_t first = 0;;) {
    copy_rows(batch.data, all.data, first);
    copy_rows(batch.target, all.target, first);
    first += static_cast<std::size_t>(batch.data.size(0));
    if (first == size) return memory;
    batch = dataset.get_batch(samples_from(first, size));
  }
}

}  // namespace

struct SharedMemoryDataset::State {
  Batch all;
};

SharedMemoryDataset::SharedMemoryDataset(const std::function<Dataset()>& make) {
  const std::shared_ptr<Session> running = session("data::SharedMemoryDataset");
  const auto own = static_cast<std::size_t>(running->topology().rank);
  const std::string id = machine_id();
  const std::vector<std::string> machines =
      gather(id.empty() ? "unknown, of rank " + std::to_string(own) : id);
  const auto leader = static_cast<std::size_t>(
      std::find(machines.begin(), machines.end(), machines[own]) - machines.begin());
  const auto followers =
      static_cast<int>(std::count(machines.begin(), machines.end(), machines[own])) - 1;
  std::optional<delivery::NodeMemory> memory;
  std::string problem;
  const auto attempt = [&](const auto& call) {
    try {
      call();
    } catch (const std::exception& error) {
      problem = error.what();
      if (problem.empty()) problem = "an exception without a message";
    } catch (...) {
      problem = "an exception that is not a std::exception";
    }
  };
  if (leader == own) attempt([&] { memory.emplace(load(make())); });
  require_none(problem);
  const std::vector<std::string> names = gather(memory ? memory->name() : "");
  auto state = std::make_shared<State>();
  attempt([&] {
    const Clock::time_point deadline = Clock::now() + kPatience;
    if (memory) memory->hand_out(followers, deadline);
    state->all = delivery::to_batch(memory ? memory->arrays()
                                           : delivery::get_node_memory(names[leader], deadline));
  });
  require_none(problem);
  state_ = std::move(state);
}

torch::data::Example<> SharedMemoryDataset::get_batch(c10::ArrayRef<std::size_t> indices) {
  require_samples("SharedMemoryDataset", indices, *size());
  const at::Tensor chosen = at::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()));
  const Batch& all = state_->all;
  return {all.data.index_select(0, chosen),
          all.target.defined() ? all.target.index_select(0, chosen) : at::Tensor()};
}

std::optional<std::size_t> SharedMemoryDataset::size() const {
  return static_cast<std::size_t>(state_->all.data.size(0));
}

const torch::data::Example<>& SharedMemoryDataset::all() const {
  return state_->all;
}

}  // namespace kolo::data
