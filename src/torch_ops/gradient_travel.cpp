// Gradients on their way: from a hook to the engine, and back.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "torch_ops/gradient_reducer.hpp"
#include "torch_ops/requests.hpp"

namespace kolo::detail {
namespace {

// Of a bucket on a device, so much is held at most.
constexpr std::int64_t kHeldPart = 8;

// Tensors in a buffer begin where the widest loads may.
constexpr std::int64_t kAlignment = 16;

// The shape of the values of a sparse gradient without any.
std::vector<std::int64_t> rows_of_nothing(const at::Tensor& parameter) {
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[0] = 0;
  return shape;
}

// Returns zeros with the strides that autograd's gradient would have.
at::Tensor zeros_for(const at::Tensor& parameter) {
  const bool is_dense = parameter.is_non_overlapping_and_dense();
  return at::zeros_like(parameter,
                        is_dense ? at::MemoryFormat::Preserve : at::MemoryFormat::Contiguous);
}

bool is_wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

// By a few kernels where the tensors are on a device: _foreach_copy_() has such for a list whose
// tensors have one dtype, and each the strides of that which it becomes, else one for each tensor.
void copy_together(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  struct List {
    std::vector<at::Tensor> to;
    std::vector<at::Tensor> from;
  };
  std::map<std::tuple<at::ScalarType, at::ScalarType, bool>, List> lists;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool alike = to[i].strides() == from[i].strides();
    List& list = lists[{to[i].scalar_type(), from[i].scalar_type(), alike}];
    list.to.push_back(to[i]);
    list.from.push_back(from[i]);
  }
  const at::NoGradGuard no_grad;
  for (const auto& [key, list] : lists) at::_foreach_copy_(list.to, list.from);
}

}  // namespace

// --- out ---

void GradientReducer::State::send(std::size_t unit, FirstError& error) {
  if (const std::optional<c10::Stream> stream = stream_to_hold_on(units[unit])) {
    hold(unit, *stream, error);
  } else {
    submit_units({&unit, 1}, error);
  }
}

// Where the unit's gradients have just been put; nothing if they go at once. What is wrong is said
// when they are submitted.
std::optional<c10::Stream> GradientReducer::State::stream_to_hold_on(const Unit& unit) const {
  const at::Device device = parameters[unit.members[0]].tensor.device();
  if (!device.is_cuda()) return std::nullopt;
  const bool all = std::all_of(unit.members.begin(), unit.members.end(), [&](std::size_t member) {
    const Parameter& parameter = parameters[member];
    return parameter.tensor.device() == device && parameter.layout != Layout::kSparse;
  });
  const auto running = session_or_null();
  if (!all || running == nullptr || has_own_compression()) return std::nullopt;
  return running->cuda_device().open_stream(device.index());
}

void GradientReducer::State::hold(std::size_t unit, c10::Stream stream, FirstError& error) {
  if (held.stream && *held.stream != stream) submit_held(error);
  held.stream = stream;
  held.units.push_back(unit);
  units[unit].held = true;
  for (const std::size_t member : units[unit].members)
    held.bytes += parameters[member].tensor.nbytes();
  const std::int64_t bucket = session("DistributedOptimizer")->config().cuda_fusion_threshold_bytes;
  if (held.bytes >= static_cast<std::size_t>(bucket / kHeldPart)) submit_held(error);
}

void GradientReducer::State::submit_held(FirstError& error) {
  const Held batch = std::exchange(held, {});
  if (batch.units.empty()) return;
  for (const std::size_t unit : batch.units) units[unit].held = false;
  const c10::StreamGuard guard(*batch.stream);
  submit_units(batch.units, error);
}

// Parameters that backward() did not reach here, but may have reached on another rank; not those
// whose layout is unknown. A unit that cannot be submitted does not keep the others from it.
void GradientReducer::State::submit_missing(FirstError& error) {
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (units[unit].in_flight() || !is_trainable(units[unit]) || !has_layouts(units[unit]))
      continue;
    error.catch_from([&] { send(unit, error); });
  }
  error.catch_from([&] { submit_held(error); });
}

// A unit that cannot be submitted is given up, so that other ranks do not wait for it.
void GradientReducer::State::submit_units(std::span<const std::size_t> batch, FirstError& error) {
  std::vector<Departure> departures;
  departures.reserve(batch.size());
  for (const std::size_t unit : batch) {
    error.catch_from([&] {
      Departure departure{&units[unit], {}};
      std::unique_ptr<CompressedExchange> exchange;
      try {
        departure.dense = gradients_of(units[unit]);
        if (has_own_compression()) exchange = compressed(departure);
      } catch (const std::exception& why) {
        give_up(units[unit], why.what());
        throw;
      }
      if (exchange == nullptr) return departures.push_back(std::move(departure));
      exchange->begin();
      units[unit].dense = std::move(departure.dense);
      units[unit].compressed = std::move(exchange);
    });
  }
  submit_dense(std::move(departures), error);
}

// Sparse ones are submitted.
std::vector<GradientReducer::State::Travelling> GradientReducer::State::gradients_of(Unit& unit) {
  std::vector<Travelling> dense;
  for (const std::size_t member : unit.members) {
    Parameter& parameter = parameters[member];
    if (!parameter.tensor.requires_grad()) continue;
    set_reduced_part_aside(parameter);
    const at::Tensor gradient = reducible_gradient(parameter);
    parameter.sent = SeenTensor(gradient);
    if (parameter.layout == Layout::kSparse) {
      submit_sparse(unit, member, gradient);
      continue;
    }
    const at::Tensor values = gradient.defined() ? gradient : zeros_for(parameter.tensor);
    dense.push_back(
        {member, parameter.order_differs ? values.contiguous() : values, {}, !gradient.defined()});
  }
  return dense;
}

void GradientReducer::State::submit_sparse(Unit& unit, std::size_t index,
                                           const at::Tensor& gradient) {
  const Parameter& parameter = parameters[index];
  const at::Tensor mine =
      gradient.defined()
          ? gradient
          : at::sparse_coo_tensor(at::empty({1, 0}, parameter.tensor.options().dtype(at::kLong)),
                                  at::empty({0}, parameter.tensor.options())
                                      .reshape(rows_of_nothing(parameter.tensor)),
                                  parameter.tensor.sizes());
  unit.sparse.emplace_back(index,
                           sparse_allreduce_async(mine, reduction(parameter.name + ".sparse")));
}

void GradientReducer::State::submit_dense(std::vector<Departure> departures, FirstError& error) {
  error.catch_from([&] {
    cast_to_smaller_dtype(departures);
    std::shared_ptr<DevicePoint> ready;
    for (Departure& one : departures) {
      if (!one.dense.empty()) error.catch_from([&] { submit_one(std::move(one), ready); });
    }
  });
}

bool GradientReducer::State::has_own_compression() const {
  return options.compression().make() != nullptr && options.process_set().size() > 1;
}

// Null if the unit has sparse gradients alone.
std::unique_ptr<CompressedExchange> GradientReducer::State::compressed(const Departure& departure) {
  std::vector<GradientCompressor*> compressors;
  std::vector<at::Tensor> gradients;
  for (const Travelling& one : departure.dense) {
    Parameter& parameter = parameters[one.parameter];
    if (parameter.compressor == nullptr)
      parameter.compressor = options.compression().make()(parameter.tensor);
    if (parameter.compressor == nullptr)
      throw InvalidArgumentError("the compression makes no compressor for " + parameter.name);
    compressors.push_back(parameter.compressor.get());
    gradients.push_back(one.work.detach());
  }
  if (compressors.empty()) return nullptr;
  auto exchange = std::make_unique<CompressedExchange>(std::move(compressors), gradients,
                                                       reduction(departure.unit->name));
  // A compressor may have written to the gradient, which is replaced in the end.
  for (const Travelling& one : departure.dense) {
    Parameter& parameter = parameters[one.parameter];
    parameter.sent = SeenTensor(parameter.tensor.grad());
  }
  return exchange;
}

// All get room in one buffer. What packs contiguous ones on a device casts them; the others are
// cast here, by a few kernels for many tensors. Nothing of a rank alone travels.
void GradientReducer::State::cast_to_smaller_dtype(std::vector<Departure>& departures) const {
  if (!options.compression().dtype() || options.process_set().size() == 1) return;
  const at::ScalarType type = *options.compression().dtype();
  const auto step = kAlignment / static_cast<std::int64_t>(c10::elementSize(type));
  const auto room = [step](const Travelling& one) {
    return (one.work.numel() + step - 1) / step * step;
  };
  std::vector<Travelling*> wide;
  std::int64_t count = 0;
  for (Departure& departure : departures) {
    for (Travelling& one : departure.dense) {
      if (!is_wide(one.work)) continue;
      if (!wide.empty() && one.work.device() != wide[0]->work.device()) {
        one.work = one.work.to(type);  // of a unit that will be refused
        continue;
      }
      wide.push_back(&one);
      count += room(one);
    }
  }
  if (wide.empty()) return;
  const at::Tensor buffer = at::empty({count}, wide[0]->work.options().dtype(type));
  std::vector<at::Tensor> from;
  std::vector<at::Tensor> to;
  count = 0;
  for (Travelling* one : wide) {
    const at::Tensor room_for_one = buffer.narrow(0, count, one->work.numel());
    const at::Tensor cast = one->work.is_non_overlapping_and_dense()
                                ? room_for_one.as_strided(one->work.sizes(), one->work.strides())
                                : room_for_one.view(one->work.sizes());
    count += room(*one);
    if (one->work.is_cuda() && one->work.is_contiguous()) {
      one->cast = cast;
      continue;
    }
    from.push_back(std::exchange(one->work, cast));
    to.push_back(cast);
  }
  copy_together(to, from);
}

// `ready`: where the values of all were there that were submitted before; then also of this one.
void GradientReducer::State::submit_one(Departure departure, std::shared_ptr<DevicePoint>& ready) {
  Unit& unit = *departure.unit;
  const std::vector<Travelling>& dense = departure.dense;
  Call call("DistributedOptimizer", "allreduce", OpKind::kAllreduce, unit.name,
            options.process_set());
  std::vector<at::Tensor> works;
  works.reserve(dense.size());
  bool absent = true;
  bool as_it_is = true;
  for (const Travelling& one : dense) {
    works.push_back(one.cast.defined() ? one.cast : one.work);
    absent = absent && one.was_undefined;
    as_it_is = as_it_is && is_reduced_in_place(one.work);
  }
  if (as_it_is) call.ready = ready;  // else a copy is made first
  std::shared_ptr<Operation> operation = make_allreduce(call, works, reduction(""));
  if (operation->on_device != nullptr) ready = operation->on_device->ready;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    if (dense[i].cast.defined()) set_outside(*operation, i, dense[i].work);
  }
  if (dense.size() > 1) {
    for (std::size_t i = 0; i < dense.size(); ++i)
      operation->descriptor.tensors[i].name = parameters[dense[i].parameter].name;
  }
  operation->absent = absent;
  for (const Travelling& one : dense) {
    Parameter& parameter = parameters[one.parameter];
    if (one.work.is_same(parameter.tensor.grad()) && !is_reduced_in_place(one.work))
      parameter.sent.reset();
  }
  unit.dense = std::move(departure.dense);
  unit.reduction = kolo::submit(call.session, std::move(operation));
}

// --- back ---

// Every reduction is waited for, so that all gradients are the caller's again.
void GradientReducer::State::wait_for_all(FirstError& error) {
  WaitsOnDevice results;
  Landing landing;
  for (Unit& unit : units) {
    if (unit.reduction) error.catch_from([&] { finish_dense(unit, results, landing); });
    finish_sparse(unit, error);
    if (unit.compressed == nullptr) continue;
    bool went_well = false;
    error.catch_from([&] {
      unit.compressed->begin_second();
      went_well = true;
    });
    if (!went_well) unit.compressed.reset();
  }
  for (Unit& unit : units) {
    unit.given_up = false;
    if (unit.compressed != nullptr) error.catch_from([&] { finish_compressed(unit); });
  }
  error.catch_from([&] { landing.copy(); });
  const at::NoGradGuard no_grad;
  error.catch_from([&] { leave_joined_out(); });
  for (Parameter& parameter : parameters) {
    error.catch_from([&] { add_reduced_part(parameter); });
    parameter.reduced_part = at::Tensor();
  }
  passes = 0;
  ++reductions;
}

// Waits, and gives what is reduced: nothing if no rank had any of it.
std::vector<GradientReducer::State::Travelling> GradientReducer::State::arrived(
    Unit& unit, WaitsOnDevice& results) {
  const Submission submission = std::move(*unit.reduction);
  unit.reduction.reset();
  std::vector<Travelling> dense = std::exchange(unit.dense, {});
  submission.wait(std::nullopt, results);
  if (submission.operation->absent_everywhere()) dense.clear();
  return dense;
}

// Throws if something else than kolo has changed the gradient since it was sent. The reduction may
// have used either value, here and on other ranks.
void GradientReducer::State::end_flight(Parameter& parameter) const {
  const std::optional<SeenTensor> sent = std::exchange(parameter.sent, {});
  if (!sent || !sent->is_changed(parameter.tensor.grad())) return;
  throw InvalidArgumentError("the gradient of " + parameter.name +
                             " was changed while it was being reduced, by another thread or a "
                             "hook; change it when backward() has returned");
}

// On the host a gradient is copied when it has arrived, while others have not.
void GradientReducer::State::finish_dense(Unit& unit, WaitsOnDevice& results, Landing& landing) {
  for (const Travelling& one : arrived(unit, results)) {
    end_flight(parameters[one.parameter]);
    const at::Tensor& parameter = parameters[one.parameter].tensor;
    const at::Tensor gradient = parameter.grad();
    if (!one.work.is_same(gradient)) use_on_device(one.work);
    if (!gradient.defined()) {
      parameter.mutable_grad() = zeros_for(parameter).copy_(one.work);
    } else if (!one.work.is_same(gradient)) {
      landing.to.push_back(gradient);
      landing.from.push_back(one.work);
    }
  }
  if (!landing.to.empty() && landing.to.back().is_cpu()) landing.copy();
}

void GradientReducer::State::finish_compressed(Unit& unit) {
  const std::unique_ptr<CompressedExchange> exchange = std::move(unit.compressed);
  const std::vector<Travelling> dense = std::exchange(unit.dense, {});
  const std::vector<at::Tensor> gradients = exchange->finish();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    Parameter& parameter = parameters[dense[i].parameter];
    end_flight(parameter);
    if (gradients[i].sizes() != parameter.tensor.sizes()) {
      throw InvalidArgumentError("the compression of " + parameter.name +
                                 " gives a gradient of shape " +
                                 to_string(gradients[i].sizes().vec()) + " instead of " +
                                 to_string(parameter.tensor.sizes().vec()));
    }
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (!gradient.defined()) gradient = zeros_for(parameter.tensor);
    gradient.copy_(gradients[i]);
  }
}

void GradientReducer::State::Landing::copy() {
  copy_together(std::exchange(to, {}), std::exchange(from, {}));
}

void GradientReducer::State::finish_sparse(Unit& unit, FirstError& error) {
  for (auto& [index, handle] : std::exchange(unit.sparse, {})) {
    error.catch_from([&, &parameter = parameters[index], &one = handle] {
      const at::Tensor reduced = one.wait();
      end_flight(parameter);
      parameter.tensor.mutable_grad() = reduced;
    });
  }
}

}  // namespace kolo::detail
