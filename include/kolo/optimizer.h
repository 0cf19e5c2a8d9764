// DistributedOptimizer: any LibTorch optimizer, with gradients reduced over all ranks.
#pragma once

#include <kolo/compression.h>
#include <kolo/in_sync.h>
#include <kolo/modules.h>
#include <kolo/process_set.h>
#include <kolo/types.h>
#include <torch/arg.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo {

// Options of a DistributedOptimizer.
struct DistributedOptimizerOptions {
  // With Adasum the optimizer's steps are reduced instead of gradients; see DistributedOptimizer.
  TORCH_ARG(ReduceOp, op) = ReduceOp::Average;
  // First part of the gradients' names in messages; unique among the program's optimizers. Empty: a
  // number in the order in which optimizers are made, which must be the same on all ranks.
  TORCH_ARG(std::string, name) = "";
  // Names of the gradients, as model->named_parameters().pairs() returns them, instead of
  // positions: for messages, and if the order of parameters differs between ranks. All parameters
  // are listed, and no name twice.
  using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;
  TORCH_ARG(NamedParameters, named_parameters) = {};
  // Number of backward() calls per reduction. The last of them reduces; gradients are added up over
  // them, not averaged. zero_grad(), step() and join() restart the count.
  TORCH_ARG(int, backward_passes_per_step) = 1;
  // Whether an Average counts ranks that have called join(). true: it divides by the size of the
  // process set, and joined ranks contribute zeros. false: it divides by the number of ranks that
  // have not joined. Must be equal on all ranks.
  TORCH_ARG(bool, average_over_joined) = true;
  // With Average, gradients are divided by this before they are added up, and by size / this
  // afterwards, which keeps sums small in float16.
  TORCH_ARG(double, gradient_predivide_factor) = 1.0;
  // How float32 and float64 gradients are compressed when they are sent; see kolo/compression.h.
  TORCH_ARG(Compression, compression) = Compression::None;
  // Parameters whose gradients are reduced together, when all of them are ready: lists of the
  // optimizer's parameters, each in one list at most, or a number of groups into which all
  // parameters are divided. The others are reduced one by one.
  TORCH_ARG(std::vector<std::vector<at::Tensor>>, groups) = {};
  TORCH_ARG(int, num_groups) = 0;
  // Makes sparse gradients dense instead of exchanging their values and indices.
  TORCH_ARG(bool, sparse_as_dense) = false;
  // Tensors that get the values of the process set's first rank after each step(): net->buffers(),
  // as DistributedDataParallel does it. That rank must not be the first one to call join().
  TORCH_ARG(std::vector<at::Tensor>, broadcast_buffers) = {};
  // Number of step() calls after which the ranks compare parameters, optimizer options and state,
  // as check_in_sync() does; a difference is a MismatchError. 0: the value of KOLO_CHECK_IN_SYNC.
  TORCH_ARG(std::int64_t, check_in_sync_every) = 0;
  // The ranks over which gradients are reduced. Only they make the optimizer.
  TORCH_ARG(ProcessSet, process_set) = ProcessSet();
};

namespace detail {

// The part of DistributedOptimizer that does not depend on the base class. Submits gradients from
// hooks while backward() goes on, and waits for them at its end.
class GradientReducer {
 public:
  explicit GradientReducer(DistributedOptimizerOptions options);
  // The hooks stay in the parameters, but no longer do anything.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Takes notice of parameters that were added or removed.
  void attach(const std::vector<torch::optim::OptimizerParamGroup>& groups);
  // See DistributedOptimizer.
  void synchronize();
  void synchronize_unless_done();
  void check_no_reduction_in_flight(const char* call) const;
  // Called when gradients were cleared: the next step() reduces, on every rank.
  void forget_gradients();
  // Runs the closure, reduces its gradients, and averages its loss over the ranks.
  at::Tensor loss_of(const std::function<at::Tensor()>& closure);
  bool reduces_steps() const;
  at::Tensor step_and_reduce(const std::function<at::Tensor()>& step);
  // Marks the end of a training step, like mark_step() of kolo/timeline.h. Returns the parameters
  // if the ranks must compare them after this step.
  NamedTensors end_step();
  // The options as given, with a name.
  const DistributedOptimizerOptions& options() const;
  void set_skip(bool skip);
  void set_no_sync(bool no_sync);

 private:
  at::Tensor average_loss(const at::Tensor& loss);

  struct State;
  std::shared_ptr<State> state_;
};

template <class T>
inline constexpr bool is_options = std::is_same_v<std::decay_t<T>, DistributedOptimizerOptions>;

// The options with the module's names, unless they have names already.
template <class Module>
DistributedOptimizerOptions with_names_of(const Module& module,
                                          DistributedOptimizerOptions options) {
  if (options.named_parameters().empty()) options.named_parameters(named_parameters_of(module));
  return options;
}

// Compares the parameters over the ranks, and the state of `base`, which has made the step. With
// Adasum each rank makes its own steps, so the states differ.
inline void check_step_in_sync(const GradientReducer& reducer, const NamedTensors& parameters,
                               torch::optim::Optimizer& base) {
  const std::string& name = reducer.options().name();
  check_in_sync("DistributedOptimizer '" + name + "'", parameters, {},
                reducer.reduces_steps() ? nullptr : &base,
                OperationOptions(name + ".in_sync").process_set(reducer.options().process_set()));
}

}  // namespace detail

// Derived from Base (torch::optim::SGD, Adam, ...), so it works with schedulers, torch::save and
// add_param_group(). step() makes Base's step, with the same gradients on every rank.
//
// When backward() returns, the gradients of this optimizer's parameters are the reduced ones, and
// the program may read, change, clip or zero them, on all ranks alike. They are reduced while
// backward() goes on.
// backward() is collective if it reaches any of the parameters: it then reduces the gradients of
// all of them, and a gradient that is missing on a rank counts as zeros. If backward() reaches none
// of them, step() reduces the gradients that exist, such as those that the program has computed
// itself.
//
// A second backward() before step() adds to the reduced gradients, and reduces what it adds.
// no_sync() and backward_passes_per_step avoid these reductions. All ranks call backward() and
// step() equally often until they call join(); otherwise backward() throws a MismatchError.
//
// If backward() throws on one rank, that rank's gradients are unspecified. If the pass had already
// reached a parameter, the other ranks get a MismatchError; otherwise they wait for the rank's next
// backward() or step(). backward() with create_graph is an InvalidArgumentError if there is more
// than one rank, because a reduced gradient has no graph.
//
//   kolo::DistributedOptimizer<torch::optim::SGD> optimizer(model, torch::optim::SGDOptions(0.1));
//
// A parameter that is listed twice (its module has two parents) is reduced once. Base makes its
// step with it as often as it is listed, as it does without kolo. The program may add, remove and
// replace parameters in param_groups(), on all ranks alike and not during backward(); zero_grad(),
// synchronize() and step() take notice.
//
// A gradient that the program has set, such as a view of its own memory, stays that tensor: it gets
// the reduced values. Gradients that autograd has made may be replaced.
//
// A gradient that is undefined on every rank stays undefined (in a group: if that holds for all of
// the group). Parameters may turn trainable or frozen later, on all ranks alike. A gradient that is
// sparse wherever it is defined in the first reduction is reduced as sparse_allreduce() does from
// then on. One that is dense on some rank there, or defined on none, is made dense everywhere.
//
// With ReduceOp::Adasum (see kolo/types.h), gradients stay local. step() makes Base's step with
// them, and then reduces the change of each parameter, as in the paper. So backward() reduces
// nothing; clip before step(), and accumulate as often as you like. synchronize() does nothing, and
// skip_synchronize() is an error. With one rank, step() is Base's step.
//
// synchronize() and step() are collective. backward() may reach the parameters in a different order
// on each rank. The optimizer leaves hooks in the parameters. To know when backward() ends, the
// first optimizer of a process wraps autograd's default engine.
template <class Base>
class DistributedOptimizer : public Base {
 public:
  // Optimizes the parameters of a module (see kolo/modules.h). Messages use their names in the
  // module.
  template <
      class Module, class BaseOptions,
      std::enable_if_t<detail::is_module<Module> && !detail::is_options<BaseOptions>, int> = 0>
  DistributedOptimizer(const Module& module, BaseOptions&& base_options,
                       DistributedOptimizerOptions options = {})
      : DistributedOptimizer(detail::parameters_of(module), std::forward<BaseOptions>(base_options),
                             detail::with_names_of(module, std::move(options))) {}
  // The same, with Base's default options.
  template <class Module, std::enable_if_t<detail::is_module<Module>, int> = 0>
  explicit DistributedOptimizer(const Module& module, DistributedOptimizerOptions options = {})
      : DistributedOptimizer(detail::parameters_of(module),
                             detail::with_names_of(module, std::move(options))) {}

  // Like Base's constructor: parameters (or parameter groups) and Base's options.
  template <
      class Parameters, class BaseOptions,
      std::enable_if_t<!detail::is_module<Parameters> && !detail::is_options<BaseOptions>, int> = 0>
  DistributedOptimizer(Parameters&& parameters, BaseOptions&& base_options,
                       DistributedOptimizerOptions options = {})
      : Base(std::forward<Parameters>(parameters), std::forward<BaseOptions>(base_options)),
        reducer_(std::move(options)) {
    reducer_.attach(this->param_groups());
  }
  // The same, with Base's default options.
  template <class Parameters, std::enable_if_t<!detail::is_module<Parameters> &&
                                                   std::is_constructible_v<Base, Parameters>,
                                               int> = 0>
  explicit DistributedOptimizer(Parameters&& parameters, DistributedOptimizerOptions options = {})
      : Base(std::forward<Parameters>(parameters)), reducer_(std::move(options)) {
    reducer_.attach(this->param_groups());
  }

  // Reduces the gradients that backward() has not reduced: those accumulated under no_sync(), or in
  // fewer calls than backward_passes_per_step. step() does not reduce them again. Collective.
  void synchronize() {
    reducer_.attach(this->param_groups());
    reducer_.synchronize();
  }

  // Reduces the gradients, unless they are reduced already, and makes Base's step. With a closure,
  // the loss that it returns is averaged over the ranks, too, so that optimizers that depend on it
  // (LBFGS) decide the same on all ranks. Collective.
  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override {
    reducer_.attach(this->param_groups());
    at::Tensor loss = reduce_and_step(std::move(closure));
    const auto compared = reducer_.end_step();
    if (!compared.empty()) detail::check_step_in_sync(reducer_, compared, *this);
    return loss;
  }

  // Restarts the count of backward_passes_per_step. InvalidArgumentError while a gradient is being
  // reduced, in a hook that backward() calls.
  void zero_grad(bool set_to_none = true) {
    reducer_.attach(this->param_groups());
    reducer_.check_no_reduction_in_flight("zero_grad");
    Base::zero_grad(set_to_none);
    reducer_.forget_gradients();
  }

  // Like that of Base. All ranks add the same parameters.
  void add_param_group(const torch::optim::OptimizerParamGroup& group) {
    Base::add_param_group(group);
    reducer_.attach(this->param_groups());
  }

  // While such an object lives, step() does not reduce anything.
  class [[nodiscard]] SkipSynchronize {
   public:
    // Made by skip_synchronize().
    explicit SkipSynchronize(detail::GradientReducer& reducer) : reducer_(&reducer) {
      reducer_->set_skip(true);
    }
    ~SkipSynchronize() { reducer_->set_skip(false); }
    SkipSynchronize(const SkipSynchronize&) = delete;
    SkipSynchronize& operator=(const SkipSynchronize&) = delete;

   private:
    detail::GradientReducer* reducer_;  // the optimizer's, which outlives the guard
  };
  // See SkipSynchronize.
  SkipSynchronize skip_synchronize() { return SkipSynchronize(reducer_); }

  // While such an object lives, backward() only accumulates. The first backward() after it reduces
  // the accumulated gradients.
  class [[nodiscard]] NoSync {
   public:
    // Made by no_sync().
    explicit NoSync(detail::GradientReducer& reducer) : reducer_(&reducer) {
      reducer_->set_no_sync(true);
    }
    ~NoSync() { reducer_->set_no_sync(false); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    detail::GradientReducer* reducer_;  // the optimizer's, which outlives the guard
  };
  // See NoSync.
  NoSync no_sync() { return NoSync(reducer_); }

 private:
  at::Tensor reduce_and_step(torch::optim::Optimizer::LossClosure closure) {
    if (reducer_.reduces_steps())
      return reducer_.step_and_reduce([&] { return Base::step(closure); });
    if (closure == nullptr) {
      reducer_.synchronize_unless_done();
      return Base::step(nullptr);
    }
    return Base::step([&] { return reducer_.loss_of(closure); });
  }

  detail::GradientReducer reducer_;
};

}  // namespace kolo
