// What a DistributedOptimizer knows of its parameters, and what is in flight.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/thread_annotations.hpp"
#include "kolo/operations.h"
#include "kolo/optimizer.h"
#include "torch_ops/handle_state.hpp"

namespace kolo::detail {

// Of several things that are done one after the other, all are tried; then the first error is
// thrown.
class FirstError {
 public:
  template <typename Function>
  void catch_from(Function&& function) {
    try {
      function();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

// Throws InvalidArgumentError for what cannot be meant.
void check_options(const DistributedOptimizerOptions& options);

struct GradientReducer::State {
  // How all ranks exchange a parameter's gradient; unknown until one of them has had one.
  enum class Layout : std::uint8_t { kUnknown, kDense, kSparse };

  struct Parameter {
    at::Tensor tensor;
    std::string name;
    std::size_t unit = 0;
    int accumulations = 0;  // since the last reduction
    int passes = 0;         // of these, those that were not under no_sync()
    Layout layout = Layout::kUnknown;
    at::Tensor start;  // its values before the step, where steps are reduced
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
    bool held = false;  // in `held`, and does not change any more
    // In flight.
    std::optional<Submission> reduction;
    std::vector<Travelling> dense;
    std::vector<std::pair<std::size_t, Handle>> sparse;  // by parameter

    bool in_flight() const { return held || reduction.has_value() || !sparse.empty(); }
  };

  // Units on a device that will be submitted together: a few large steps cost the host less than
  // many small ones, and what has been made on one stream needs one event.
  struct Held {
    std::vector<std::size_t> units;
    std::size_t bytes = 0;
    std::optional<c10::Stream> stream;  // where their gradients were made
  };

  // What a unit sends.
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
  bool synchronized KOLO_GUARDED_BY(mutex) = false;  // no gradient was accumulated since
  int skip KOLO_GUARDED_BY(mutex) = 0;               // how many guards live
  int no_sync KOLO_GUARDED_BY(mutex) = 0;            // how many guards live
  // The one whose hook runs, and autograd has its gradient in hand.
  const Parameter* in_hook KOLO_GUARDED_BY(mutex) = nullptr;

  bool reduces_steps() const { return options.op() == ReduceOp::Adasum; }
  void add_units(std::size_t first) KOLO_REQUIRES(mutex);
  std::vector<std::vector<std::size_t>> groups() const KOLO_REQUIRES(mutex);
  void name_parameters(std::size_t first) KOLO_REQUIRES(mutex);
  void gradient_ready(std::size_t index) KOLO_EXCLUDES(mutex);
  bool is_ready(const Unit& unit) const KOLO_REQUIRES(mutex);
  bool may_be_submitted(const Unit& unit) const KOLO_REQUIRES(mutex);
  bool is_trainable(const Unit& unit) const KOLO_REQUIRES(mutex);
  void agree_on_layouts() KOLO_REQUIRES(mutex);
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
  void submit(std::span<const std::size_t> batch, FirstError& error) KOLO_REQUIRES(mutex);
  std::vector<Travelling> gradients_of(Unit& unit) KOLO_REQUIRES(mutex);
  void submit_sparse(Unit& unit, std::size_t index, const at::Tensor& gradient)
      KOLO_REQUIRES(mutex);
  void submit_dense(std::vector<Departure> departures, FirstError& error) KOLO_REQUIRES(mutex);
  void compress(std::vector<Departure>& departures) const;
  void submit_one(Departure departure, std::shared_ptr<DevicePoint>& ready) KOLO_REQUIRES(mutex);

  // On the way back.
  void wait_for_all(FirstError& error) KOLO_REQUIRES(mutex);
  std::vector<Travelling> arrived(Unit& unit, WaitsOnDevice& results) KOLO_REQUIRES(mutex);
  void finish_dense(Unit& unit, WaitsOnDevice& results, Landing& landing) KOLO_REQUIRES(mutex);
  void finish_sparse(Unit& unit, FirstError& error) KOLO_REQUIRES(mutex);

  // Where steps are reduced, not gradients.
  void remember_parameters() KOLO_REQUIRES(mutex);
  void submit_steps(FirstError& error) KOLO_REQUIRES(mutex);
  void finish_steps(FirstError& error) KOLO_REQUIRES(mutex);
};

}  // namespace kolo::detail
