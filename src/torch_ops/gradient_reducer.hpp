// A DistributedOptimizer's parameters, and the reductions that are in flight.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/thread_annotations.hpp"
#include "kolo/operations.h"
#include "kolo/optimizer.h"
#include "torch_ops/backward_pass.hpp"
#include "torch_ops/compressed_exchange.hpp"
#include "torch_ops/first_error.hpp"
#include "torch_ops/gradient_hooks.hpp"
#include "torch_ops/handle_state.hpp"
#include "torch_ops/seen_tensor.hpp"

namespace kolo::detail {

// Throws InvalidArgumentError for what cannot be meant.
void check_options(const DistributedOptimizerOptions& options);

struct GradientReducer::State final : GradientListener,
                                      BackwardPass::Member,
                                      std::enable_shared_from_this<GradientReducer::State> {
  // The form in which all ranks exchange a parameter's gradient. Unknown until one of them has had
  // one.
  enum class Layout : std::uint8_t { kUnknown, kDense, kSparse };

  struct Parameter {
    at::Tensor tensor;
    std::string name;
    std::size_t unit = 0;
    NodePointer accumulator;  // calls before_accumulation()
    Layout layout = Layout::kUnknown;
    // Whether ranks store its dimensions in different orders. Its gradients are then sent as
    // contiguous copies. Known when the layout is known.
    bool order_differs = false;
    std::unique_ptr<GradientCompressor> compressor;  // the program's; null: it has none so far
    SeenTensor reduced;  // a gradient that is equal on all ranks, and not to be added up again
    at::Tensor start;    // its values before the step, where steps are reduced
    std::optional<SeenTensor> sent;  // the gradient in flight; empty: kolo copies back

    // For the current pass. The part of the gradient that was reduced before waits here while the
    // new part is reduced alone.
    at::Tensor reduced_part;
    bool prepared = false;  // before_accumulation() was called
    bool is_new = false;    // there was no gradient to add to
    bool reached = false;

    bool known = false;    // an earlier pass has reached it
    bool repeats = false;  // a pass has reached it more than once
  };

  // A dense gradient, or a step, on its way.
  struct Travelling {
    std::size_t parameter = 0;
    at::Tensor work;  // what is reduced: the gradient, or a copy in another dtype, or zeros
    at::Tensor cast;  // on a device: room for the other dtype, in which that travels; or undefined
    bool was_undefined = false;
  };

  // Parameters whose gradients are reduced together.
  struct Unit {
    std::string name;
    std::vector<std::size_t> members;
    bool held = false;      // in `held`, and does not change any more
    bool given_up = false;  // the other ranks have been told so, in this reduction
    // In flight.
    std::optional<Submission> reduction;
    std::vector<Travelling> dense;
    std::unique_ptr<CompressedExchange> compressed;      // of the dense ones, or null
    std::vector<std::pair<std::size_t, Handle>> sparse;  // by parameter

    bool in_flight() const {
      return held || reduction.has_value() || compressed != nullptr || !sparse.empty();
    }
  };

  // Units on a device that will be submitted together: a few large steps cost the host less than
  // many small ones, and what has been made on one stream needs one event.
  struct Held {
    std::vector<std::size_t> units;
    std::size_t bytes = 0;
    std::optional<c10::Stream> stream;  // where their gradients were made
  };

  // The gradients that a unit sends.
  struct Departure {
    Unit* unit = nullptr;
    std::vector<Travelling> dense;
  };

  // Copies that have arrived in another dtype, and where they go.
  struct Landing {
    std::vector<at::Tensor> to;
    std::vector<at::Tensor> from;
    void copy();
  };

  DistributedOptimizerOptions options;  // constant after construction

  // Hooks may run on several threads at once: autograd has one a device.
  Mutex mutex;
  std::vector<Parameter> parameters KOLO_GUARDED_BY(mutex);  // each once
  std::size_t listed KOLO_GUARDED_BY(mutex) = 0;             // in the base's groups, some twice
  std::vector<Unit> units KOLO_GUARDED_BY(mutex);
  Held held KOLO_GUARDED_BY(mutex);
  bool synchronized KOLO_GUARDED_BY(mutex) = false;  // reduced, and nothing was added since
  int skip KOLO_GUARDED_BY(mutex) = 0;               // how many guards live
  int no_sync KOLO_GUARDED_BY(mutex) = 0;            // how many guards live
  int passes KOLO_GUARDED_BY(mutex) = 0;             // since the last reduction; not under no_sync
  // join() lets a rank miss what the others learn about layouts; after it they agree anew.
  std::uint64_t joins KOLO_GUARDED_BY(mutex) = 0;
  bool layouts_agreed KOLO_GUARDED_BY(mutex) = false;
  // This rank's place in the program. Ranks compare it in each reduction, so that gradients of
  // different passes are not mixed.
  std::int64_t steps KOLO_GUARDED_BY(mutex) = 0;               // step() was called, since join()
  std::int64_t reductions KOLO_GUARDED_BY(mutex) = 0;          // since the last step()
  std::optional<Handle> place KOLO_GUARDED_BY(mutex);          // the comparison in flight
  std::int64_t ranks_in_reduction KOLO_GUARDED_BY(mutex) = 1;  // without those that have joined
  // The current pass, or null if no pass has reached a parameter yet.
  const BackwardPass* pass KOLO_GUARDED_BY(mutex) = nullptr;
  bool pass_reduces KOLO_GUARDED_BY(mutex) = false;
  bool pass_submitted KOLO_GUARDED_BY(mutex) = false;
  // The one whose hook runs, and autograd has its gradient in hand.
  const Parameter* in_hook KOLO_GUARDED_BY(mutex) = nullptr;

  bool reduces_steps() const { return options.op() == ReduceOp::Adasum; }
  void add_units(std::size_t first) KOLO_REQUIRES(mutex);
  std::vector<std::vector<std::size_t>> groups() const KOLO_REQUIRES(mutex);
  // Throws InvalidArgumentError for a parameter whose gradients cannot be reduced.
  void check_dtype(const at::Tensor& parameter, std::size_t position) const;
  // The parameter's name in named_parameters(), if it is there.
  std::optional<std::string> name_given_to(const at::Tensor& parameter) const;
  void name_parameters(std::size_t first) KOLO_REQUIRES(mutex);

  // From GradientListener and BackwardPass::Member.
  void before_accumulation(std::size_t index) override KOLO_EXCLUDES(mutex);
  void accumulated(std::size_t index) override KOLO_EXCLUDES(mutex);
  const std::string& name() const override { return options.name(); }
  void submit() override KOLO_EXCLUDES(mutex);
  void wait() override KOLO_EXCLUDES(mutex);
  void fail(const std::string& why) override KOLO_EXCLUDES(mutex);

  // The current pass.
  bool enter_pass() KOLO_REQUIRES(mutex);
  void leave_pass(FirstError& error) KOLO_REQUIRES(mutex);
  bool may_leave_early(const Unit& unit) const KOLO_REQUIRES(mutex);

  bool has_layouts(const Unit& unit) const KOLO_REQUIRES(mutex);
  bool is_trainable(const Unit& unit) const KOLO_REQUIRES(mutex);
  void reduce(FirstError& error) KOLO_REQUIRES(mutex);
  void submit_rest(FirstError& error) KOLO_REQUIRES(mutex);
  void notice_join() KOLO_REQUIRES(mutex);
  // Names the operation that compares the ranks' places. Stall reports show this name.
  std::string place_name() const { return "backward() or step() of " + options.name(); }
  void submit_place() KOLO_REQUIRES(mutex);
  void check_place() KOLO_REQUIRES(mutex);
  void broadcast_buffers() const;
  bool compares_after_step() const KOLO_REQUIRES(mutex);
  std::vector<Parameter*> without_layout() KOLO_REQUIRES(mutex);
  void agree_on_layouts() KOLO_REQUIRES(mutex);
  void give_up(Unit& unit, const std::string& why) const KOLO_REQUIRES(mutex);
  void remember_reduced() KOLO_REQUIRES(mutex);
  void set_reduced_part_aside(Parameter& parameter) KOLO_REQUIRES(mutex);
  void add_reduced_part(Parameter& parameter) const KOLO_REQUIRES(mutex);
  double share_of_reduced() const;
  double correction_for_joined() const KOLO_REQUIRES(mutex);
  void leave_joined_out() KOLO_REQUIRES(mutex);
  at::Tensor reducible_gradient(Parameter& parameter) const KOLO_REQUIRES(mutex);
  bool shares_storage(const Parameter& parameter, const at::Tensor& gradient) const
      KOLO_REQUIRES(mutex);
  at::Tensor in_layout(const Parameter& parameter, const at::Tensor& gradient) const;
  AllreduceOptions reduction(const std::string& name) const;

  // On the way out.
  void send(std::size_t unit, FirstError& error) KOLO_REQUIRES(mutex);
  std::optional<c10::Stream> stream_to_hold_on(const Unit& unit) const KOLO_REQUIRES(mutex);
  void hold(std::size_t unit, c10::Stream stream, FirstError& error) KOLO_REQUIRES(mutex);
  void submit_held(FirstError& error) KOLO_REQUIRES(mutex);
  void submit_missing(FirstError& error) KOLO_REQUIRES(mutex);
  void submit_units(std::span<const std::size_t> batch, FirstError& error) KOLO_REQUIRES(mutex);
  std::vector<Travelling> gradients_of(Unit& unit) KOLO_REQUIRES(mutex);
  void submit_sparse(Unit& unit, std::size_t index, const at::Tensor& gradient)
      KOLO_REQUIRES(mutex);
  void submit_dense(std::vector<Departure> departures, FirstError& error) KOLO_REQUIRES(mutex);
  void cast_to_smaller_dtype(std::vector<Departure>& departures) const;
  bool has_own_compression() const;
  std::unique_ptr<CompressedExchange> compressed(const Departure& departure) KOLO_REQUIRES(mutex);
  void submit_one(Departure departure, std::shared_ptr<DevicePoint>& ready) KOLO_REQUIRES(mutex);

  // On the way back.
  void wait_for_all(FirstError& error) KOLO_REQUIRES(mutex);
  std::vector<Travelling> arrived(Unit& unit, WaitsOnDevice& results) KOLO_REQUIRES(mutex);
  void end_flight(Parameter& parameter) const KOLO_REQUIRES(mutex);
  void finish_dense(Unit& unit, WaitsOnDevice& results, Landing& landing) KOLO_REQUIRES(mutex);
  void finish_compressed(Unit& unit) KOLO_REQUIRES(mutex);
  void finish_sparse(Unit& unit, FirstError& error) KOLO_REQUIRES(mutex);

  // Where steps are reduced, not gradients.
  void remember_parameters() KOLO_REQUIRES(mutex);
  void submit_steps(FirstError& error) KOLO_REQUIRES(mutex);
  void finish_steps(FirstError& error) KOLO_REQUIRES(mutex);
};

}  // namespace kolo::detail
