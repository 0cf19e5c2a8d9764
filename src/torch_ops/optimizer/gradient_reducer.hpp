#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/thread_annotations.hpp"
#include "kolo/optimizer.h"
#include "torch_ops/optimizer/backward_pass.hpp"
#include "torch_ops/optimizer/first_error.hpp"
#include "torch_ops/optimizer/gradient_hooks.hpp"
#include "torch_ops/optimizer/layout_agreement.hpp"
#include "torch_ops/optimizer/outbox.hpp"
#include "torch_ops/optimizer/parameter_table.hpp"
#include "torch_ops/optimizer/place_comparison.hpp"
#include "torch_ops/optimizer/ready_units.hpp"
#include "torch_ops/optimizer/reduced_parts.hpp"
#include "torch_ops/optimizer/seen_tensor.hpp"
#include "torch_ops/optimizer/step_reduction.hpp"

namespace kolo::detail {

// Decides when a DistributedOptimizer's gradients are reduced: follows each backward pass through
// the hooks of its parameters, sends units soon after all of their gradients are complete, and the
// rest at the end of the pass.
struct GradientReducer::State final : GradientListener,
                                      BackwardPass::Member,
                                      std::enable_shared_from_this<GradientReducer::State> {
  explicit State(DistributedOptimizerOptions given);

  // From GradientListener and BackwardPass::Member.
  void before_accumulation(std::size_t index) override KOLO_EXCLUDES(mutex);
  void accumulated(std::size_t index, const at::Tensor& gradient) override KOLO_EXCLUDES(mutex);
  const std::string& name() const override { return options.name(); }
  void submit() override KOLO_EXCLUDES(mutex);
  void wait() override KOLO_EXCLUDES(mutex);
  void fail(const std::string& why) override KOLO_EXCLUDES(mutex);

  // Whether steps are reduced, not gradients.
  bool reduces_steps() const { return options.op() == ReduceOp::Adasum; }
  void attach(const std::vector<torch::optim::OptimizerParamGroup>& groups) KOLO_REQUIRES(mutex);
  void add(const std::vector<at::Tensor>& fresh) KOLO_REQUIRES(mutex);
  void hook_trainable() KOLO_REQUIRES(mutex);
  void remove_others(const std::unordered_set<const c10::TensorImpl*>& kept) KOLO_REQUIRES(mutex);

  // The current pass.
  bool enter_pass() KOLO_REQUIRES(mutex);
  void leave_pass(FirstError& error) KOLO_REQUIRES(mutex);
  bool may_leave_early(const Unit& unit) const KOLO_REQUIRES(mutex);

  // A reduction.
  void reduce(FirstError& error) KOLO_REQUIRES(mutex);
  void begin_reduction() KOLO_REQUIRES(mutex);
  void send(const std::vector<std::size_t>& units, FirstError& error) KOLO_REQUIRES(mutex);
  void send_early(const std::vector<std::size_t>& units, FirstError& error) KOLO_REQUIRES(mutex);
  void send_rest(FirstError& error) KOLO_REQUIRES(mutex);
  void give_up_reduction(const std::string& why) KOLO_REQUIRES(mutex);
  void give_up_rest(const std::string& why, FirstError& error) KOLO_REQUIRES(mutex);
  void finish(FirstError& error) KOLO_REQUIRES(mutex);
  void end_failed_reduction() KOLO_REQUIRES(mutex);
  void wait_for_results(FirstError& error) KOLO_REQUIRES(mutex);
  bool only_waits() const KOLO_REQUIRES(mutex);
  std::vector<at::Tensor> gradients_of(const Unit& unit) KOLO_REQUIRES(mutex);
  void notice_join() KOLO_REQUIRES(mutex);
  void mark_reduced() KOLO_REQUIRES(mutex);
  double share_of_reduced() const;
  double correction_for_joined() const KOLO_REQUIRES(mutex);
  void leave_joined_out() KOLO_REQUIRES(mutex);

  // After a step.
  bool compares_after_step() const KOLO_REQUIRES(mutex);
  NamedTensors end_step() KOLO_REQUIRES(mutex);
  void broadcast_buffers() const;
  void give_up_loss(const std::string& why) const;

  // The steps of Adasum.
  void reduce_steps(FirstError& error) KOLO_REQUIRES(mutex);
  void give_up_steps(const std::string& why) KOLO_REQUIRES(mutex);

  // A parameter's progress in the current pass.
  struct Progress {
    NodePointer accumulator;  // calls before_accumulation()
    bool prepared = false;    // before_accumulation() was called
    bool is_new = false;      // there was no gradient to add to
    SeenTensor made;          // the gradient, if autograd and not the program has made it
    bool reached = false;
    bool known = false;    // an earlier pass has reached the parameter
    bool repeats = false;  // a pass has reached it more than once
  };

  const DistributedOptimizerOptions options;

  // Hooks may run on several threads at once: autograd has one a device.
  Mutex mutex;
  ParameterTable table KOLO_GUARDED_BY(mutex);
  LayoutAgreement layouts KOLO_GUARDED_BY(mutex);
  PlaceComparison place KOLO_GUARDED_BY(mutex);
  ReducedParts reduced_parts KOLO_GUARDED_BY(mutex);
  Outbox outbox KOLO_GUARDED_BY(mutex);
  ReadyUnits ready KOLO_GUARDED_BY(mutex);  // some may have been reached again since
  StepReduction step_reduction KOLO_GUARDED_BY(mutex);
  std::vector<Progress> progress KOLO_GUARDED_BY(mutex);  // by parameter
  // The base's parameters at the last attach(), some twice. The table keeps them alive.
  std::vector<const c10::TensorImpl*> listed KOLO_GUARDED_BY(mutex);
  bool synchronized KOLO_GUARDED_BY(mutex) = false;  // reduced, and nothing was added since
  int skip KOLO_GUARDED_BY(mutex) = 0;               // number of living guards
  int no_sync KOLO_GUARDED_BY(mutex) = 0;            // number of living guards
  int passes KOLO_GUARDED_BY(mutex) = 0;             // since the last reduction; not under no_sync
  std::uint64_t joins KOLO_GUARDED_BY(mutex) = 0;    // that have ended in the process set
  // The current pass, or null if no pass has reached a parameter yet.
  const BackwardPass* pass KOLO_GUARDED_BY(mutex) = nullptr;
  bool pass_reduces KOLO_GUARDED_BY(mutex) = false;
  bool pass_submitted KOLO_GUARDED_BY(mutex) = false;
  bool reduction_has_begun KOLO_GUARDED_BY(mutex) = false;
  // Reductions that have ended on the other ranks, too, also with an error.
  std::uint64_t reductions KOLO_GUARDED_BY(mutex) = 0;
  // A pass has failed. What it had sent may still be under way.
  bool reduction_has_failed KOLO_GUARDED_BY(mutex) = false;
  bool closures_have_loss = true;  // the last one had; used by the thread that steps
  // The parameter whose hook runs. Autograd still refers to its gradient.
  const Parameter* in_hook KOLO_GUARDED_BY(mutex) = nullptr;
};

}  // namespace kolo::detail
