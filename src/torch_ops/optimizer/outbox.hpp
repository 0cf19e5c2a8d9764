#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kolo/optimizer.h"
#include "torch_ops/ops/requests.hpp"
#include "torch_ops/optimizer/compressed_exchange.hpp"
#include "torch_ops/optimizer/first_error.hpp"
#include "torch_ops/optimizer/gradient_writer.hpp"
#include "torch_ops/optimizer/parameter_table.hpp"
#include "torch_ops/optimizer/seen_tensor.hpp"
#include "torch_ops/optimizer/sent_gradient.hpp"

namespace kolo::detail {

// Sends the gradients of a DistributedOptimizer unit by unit, waits for the results, and puts them
// where the gradients are.
class Outbox {
 public:
  // Both must outlive the object.
  Outbox(const DistributedOptimizerOptions& options, const ParameterTable& table)
      : options_(options), table_(table) {}

  // Makes room for parameters and units that were added to the table.
  void grow();
  // Forgets what it keeps for a parameter that is removed from the table.
  void forget(std::size_t parameter) { senders_[parameter] = {}; }

  // Sends the gradients of units, which make() returns for each: those of its trainable members, in
  // their order, undefined where this rank has none. The layouts of the members are known. On each
  // device, the current stream has computed them. A unit that cannot be sent, because make() throws
  // or for another reason, is given up, so that other ranks do not wait for it.
  using MakeGradients = std::function<std::vector<at::Tensor>(std::size_t unit)>;
  void send(const std::vector<std::size_t>& units, const MakeGradients& make, FirstError& error);

  // Reports to the other ranks that this one cannot send what is left of the unit, and why.
  void give_up(std::size_t unit, const std::string& why);

  // Whether the unit's gradients have been sent. They must not change.
  bool has(std::size_t unit) const { return flights_[unit].is_under_way(); }

  // Ends the reduction: waits for everything that was sent, also after an error, and puts the
  // results in place of the gradients.
  void wait(FirstError& error);

  // Sends a step of each parameter in place of gradients, with Adasum. The steps are contiguous.
  void send_steps(const std::vector<at::Tensor>& steps, FirstError& error);
  // Waits for the steps, and calls `apply` with each reduced one. It skips parameters of which no
  // rank has a gradient.
  using Apply = std::function<void(std::size_t parameter, const at::Tensor& step)>;
  void wait_for_steps(const Apply& apply, FirstError& error);

 private:
  // The part of a unit that is in flight.
  struct Flight {
    // Whether the dense gradients were submitted or given up in this reduction, so that the other
    // ranks no longer wait for them; and the parameters whose sparse gradients were.
    bool dense_is_settled = false;
    std::vector<std::size_t> settled_sparse;
    std::optional<Submission> reduction;
    std::vector<SentGradient> dense;
    std::unique_ptr<CompressedExchange> compressed;               // of the dense ones, or null
    std::vector<std::pair<std::size_t, SparseReduction>> sparse;  // by parameter

    bool settle_sparse(std::size_t parameter);
    void begin_anew();
    bool is_under_way() const {
      return reduction.has_value() || compressed != nullptr || !sparse.empty();
    }
  };

  // The dense gradients of a unit that will be submitted.
  struct OutgoingUnit {
    std::size_t unit = 0;
    std::vector<SentGradient> dense;
  };

  // State that a parameter keeps between reductions.
  struct Sender {
    std::unique_ptr<GradientCompressor> compressor;  // the program's; null: it has none so far
    std::optional<SeenTensor> sent;  // the gradient in flight; empty: kolo may write to its memory
  };

  template <typename Send>
  void or_give_up(std::size_t unit, FirstError& error, const Send& send);
  OutgoingUnit prepare(std::size_t unit, const std::vector<at::Tensor>& gradients);
  void submit_sparse(std::size_t unit, std::size_t parameter, const at::Tensor& gradient);
  void submit(std::vector<OutgoingUnit> units, FirstError& error);
  void cast(std::vector<OutgoingUnit>& units) const;
  void submit_one(OutgoingUnit outgoing, std::shared_ptr<DevicePoint>& ready);
  bool has_own_compression() const;
  std::unique_ptr<CompressedExchange> compress(const OutgoingUnit& outgoing);
  void submit_compressed(OutgoingUnit outgoing);

  std::vector<SentGradient> arrived(Flight& flight, WaitsOnDevice& results);
  void end_flight(std::size_t parameter);
  void finish_dense(Flight& flight, WaitsOnDevice& results, GradientWriter& writer);
  void finish_sparse(Flight& flight, WaitsOnDevice& results, FirstError& error);
  void begin_second_exchange(Flight& flight, FirstError& error);
  void finish_compressed(Flight& flight, GradientWriter& writer);

  const DistributedOptimizerOptions& options_;
  const ParameterTable& table_;
  std::vector<Sender> senders_;  // by parameter
  std::vector<Flight> flights_;  // by unit
};

}  // namespace kolo::detail
