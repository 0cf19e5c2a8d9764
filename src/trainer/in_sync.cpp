#include "kolo/in_sync.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>
#include <variant>

#include "checkpoint/components.hpp"
#include "checkpoint/header.hpp"
#include "core/ranks.hpp"
#include "core/types.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/objects.h"

namespace kolo {
namespace {

// Names of compared values, with their hashes. Causes come before consequences: options before
// parameters, parameters before state.
using Parts = std::vector<std::pair<std::string, std::uint64_t>>;
using RankParts = std::pair<int, Parts>;  // with the rank that has them

std::uint64_t hash_of(const std::string& bytes) {
  return checkpoint::checksum(bytes.data(), bytes.size());
}

// Hashes values, shape and dtype, but not strides and device.
std::uint64_t hash_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return 0;
  at::Tensor values = tensor.detach();
  if (values.is_sparse()) values = values.to_dense();
  values = values.resolve_conj().resolve_neg().cpu().contiguous();
  const std::uint64_t of_values = checkpoint::checksum(values.const_data_ptr(), values.nbytes());
  return hash_of(std::to_string(of_values) + to_string(values.sizes().vec()) +
                 c10::toString(values.scalar_type()));
}

void add(const detail::NamedTensors& tensors, Parts& parts) {
  for (const auto& [name, tensor] : tensors) parts.emplace_back(name, hash_of(tensor));
}

struct OptimizerParts {
  Parts options;
  Parts state;
};

OptimizerParts parts_of(torch::optim::Optimizer& optimizer,
                        const checkpoint::ParameterNames& names) {
  checkpoint::Capture capture;
  checkpoint::optimizer_component("optimizer", optimizer, names, checkpoint::Kind::kTensor)
      ->capture(capture);
  OptimizerParts parts;
  for (const auto& [name, value] : capture.values()) {
    const bool is_state = name.rfind("optimizer/state/", 0) == 0;
    (is_state ? parts.state : parts.options)
        .emplace_back(name, hash_of(checkpoint::to_string(value)));
  }
  for (const auto& item : capture.items())
    parts.state.emplace_back(item.name, hash_of(item.tensor));
  return parts;
}

void append(Parts& parts, Parts more) {
  parts.insert(parts.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

// Names the first part that differs from the first rank's, and counts such parts.
std::string describe(const std::vector<RankParts>& of_ranks) {
  std::vector<std::string> names;  // each once, in the order of the first rank that has it
  std::set<std::string> known;
  std::vector<std::map<std::string, std::uint64_t>> hashes;
  for (const auto& [rank, parts] : of_ranks) {
    for (const auto& [name, hash] : parts) {
      if (known.insert(name).second) names.push_back(name);
    }
    hashes.emplace_back(parts.begin(), parts.end());
  }
  std::string first;
  std::size_t count = 0;
  for (const std::string& name : names) {
    const auto reference = hashes[0].find(name);
    std::vector<int> different;
    for (std::size_t i = 1; i < hashes.size(); ++i) {
      const auto found = hashes[i].find(name);
      const bool same = reference != hashes[0].end() && found != hashes[i].end() &&
                        found->second == reference->second;
      const bool on_neither = reference == hashes[0].end() && found == hashes[i].end();
      if (!same && !on_neither) different.push_back(of_ranks[i].first);
    }
    if (different.empty()) continue;
    if (++count == 1) {
      first = "'" + name + "' on " + rank_list(different) + " is not what rank " +
              std::to_string(of_ranks[0].first) + " has";
    }
  }
  return first + "; " + std::to_string(count) + " of " + std::to_string(names.size()) +
         " parts differ";
}

// Collective. Needs only one allreduce of two numbers if the ranks are in sync.
void compare(const std::string& what, const Parts& parts, const OperationOptions& options) {
  Parts sorted = parts;  // parameters may be in another order on other ranks
  std::sort(sorted.begin(), sorted.end());
  std::string listing;
  for (const auto& [name, hash] : sorted) listing += name + "\n" + std::to_string(hash) + "\n";
  const auto all = static_cast<std::int64_t>(hash_of(listing));
  // The largest complement is the complement of the smallest hash.
  const at::Tensor extremes = allreduce(
      at::tensor({all, ~all}, at::kLong),
      AllreduceOptions(options.name()).op(ReduceOp::Max).process_set(options.process_set()));
  if (extremes[0].item<std::int64_t>() == ~extremes[1].item<std::int64_t>()) return;
  const std::string name = options.name().empty() ? "" : options.name() + ".parts";
  const std::vector<RankParts> of_ranks = allgather_object(
      RankParts(rank(), parts), OperationOptions(name).process_set(options.process_set()));
  throw MismatchError(what + ": the ranks are not in sync: " + describe(of_ranks) +
                      ". A rank has used a value of its own, such as a local loss, where all ranks "
                      "need the same; see docs/one-to-many.md");
}

}  // namespace

void check_in_sync(const std::string& what, const at::Tensor& tensor,
                   const OperationOptions& options) {
  compare("check_in_sync()", {{what, hash_of(tensor)}}, options);
}

namespace detail {

void check_in_sync(const std::string& who, const NamedTensors& parameters,
                   const NamedTensors& buffers, torch::optim::Optimizer* optimizer,
                   const OperationOptions& options) {
  OptimizerParts of_optimizer;
  if (optimizer != nullptr) {
    checkpoint::ParameterNames names;
    for (const auto& [name, parameter] : parameters)
      names.emplace(parameter.unsafeGetTensorImpl(), name);
    of_optimizer = parts_of(*optimizer, names);
  }
  Parts parts = std::move(of_optimizer.options);
  add(parameters, parts);
  append(parts, std::move(of_optimizer.state));
  add(buffers, parts);
  compare(who, parts, options);
}

}  // namespace detail
}  // namespace kolo
