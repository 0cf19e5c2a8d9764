#include "torch_ops/optimizer/outbox.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>

#include "core/exception.hpp"
#include "core/operations.hpp"
#include "kolo/error.h"
#include "torch_ops/ops/requests.hpp"
#include "torch_ops/ops/tensor_traits.hpp"
#include "torch_ops/optimizer/options.hpp"

namespace kolo::detail {
namespace {

// Returns a sparse gradient without rows.
at::Tensor empty_sparse(const at::Tensor& parameter) {
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[0] = 0;
  return at::sparse_coo_tensor(at::empty({1, 0}, parameter.options().dtype(at::kLong)),
                               at::empty({0}, parameter.options()).reshape(shape),
                               parameter.sizes());
}

}  // namespace

void Outbox::grow() {
  senders_.resize(table_.size());
  flights_.resize(table_.units().size());
}

// --- out ---

void Outbox::send(const std::vector<std::size_t>& units, const MakeGradients& make,
                  FirstError& error) {
  std::vector<OutgoingUnit> outgoing;
  outgoing.reserve(units.size());
  for (const std::size_t unit : units) {
    or_give_up(unit, error, [&] {
      OutgoingUnit one = prepare(unit, make(unit));
      if (one.dense.empty()) return;
      if (has_own_compression()) {
        submit_compressed(std::move(one));
      } else {
        outgoing.push_back(std::move(one));
      }
    });
  }
  submit(std::move(outgoing), error);
}

// Runs send(). If it throws, gives the unit up, so that no rank waits for this one.
template <typename Send>
void Outbox::or_give_up(std::size_t unit, FirstError& error, const Send& send) {
  error.catch_from([&] {
    try {
      send();
    } catch (...) {
      give_up(unit, text_of(std::current_exception()));
      throw;
    }
  });
}

// Submits the sparse gradients, and returns the dense ones.
Outbox::OutgoingUnit Outbox::prepare(std::size_t unit, const std::vector<at::Tensor>& gradients) {
  OutgoingUnit outgoing{unit, {}};
  auto gradient = gradients.begin();
  for (const std::size_t member : table_.units()[unit].members) {
    const Parameter& parameter = table_[member];
    if (!parameter.tensor.requires_grad()) continue;
    const at::Tensor& mine = *gradient++;
    senders_[member].sent.reset();
    // Writing the result of another gradient in the same memory counts as a change of this one.
    if (mine.is_same(parameter.tensor.grad())) senders_[member].sent = SeenTensor(mine);
    if (parameter.layout == Layout::kSparse) {
      submit_sparse(unit, member, mine);
      continue;
    }
    const at::Tensor values = mine.defined() ? mine : zeros_for(parameter.tensor);
    outgoing.dense.push_back(
        {member, parameter.order_differs ? values.contiguous() : values, {}, !mine.defined()});
  }
  return outgoing;
}

void Outbox::submit_sparse(std::size_t unit, std::size_t parameter, const at::Tensor& gradient) {
  const at::Tensor mine = gradient.defined() ? gradient : empty_sparse(table_[parameter].tensor);
  const Call call("DistributedOptimizer", "sparse_allreduce", OpKind::kAllgather,
                  table_[parameter].name + ".sparse", options_.process_set());
  flights_[unit].settle_sparse(parameter);  // if the call throws, it has given itself up
  flights_[unit].sparse.emplace_back(
      parameter,
      submit_sparse_allreduce(call, mine, reduction_of(options_, ""), !gradient.defined()));
}

void Outbox::submit(std::vector<OutgoingUnit> units, FirstError& error) {
  error.catch_from([&] {
    try {
      cast(units);
    } catch (...) {
      for (const OutgoingUnit& one : units) {
        if (!one.dense.empty()) give_up(one.unit, text_of(std::current_exception()));
      }
      throw;
    }
    std::shared_ptr<DevicePoint> ready;
    std::optional<at::Device> device;
    for (OutgoingUnit& one : units) {
      if (one.dense.empty()) continue;
      const at::Device next = one.dense[0].values.device();
      if (std::exchange(device, next) != next) ready.reset();
      or_give_up(one.unit, error, [&] { submit_one(std::move(one), ready); });
    }
  });
}

// Makes the gradients travel in the dtype of the options, if they name one.
void Outbox::cast(std::vector<OutgoingUnit>& units) const {
  if (!options_.compression().dtype() || options_.process_set().size() == 1) return;
  std::vector<SentGradient*> all;
  for (OutgoingUnit& outgoing : units) {
    for (SentGradient& one : outgoing.dense) all.push_back(&one);
  }
  send_as(*options_.compression().dtype(), all);
}

// `ready`: the point at which the values of all units submitted before on the same device were
// computed, or null; afterwards also this unit's.
void Outbox::submit_one(OutgoingUnit outgoing, std::shared_ptr<DevicePoint>& ready) {
  const std::vector<SentGradient>& dense = outgoing.dense;
  const Call call("DistributedOptimizer", "allreduce", OpKind::kAllreduce,
                  table_.units()[outgoing.unit].name, options_.process_set());
  std::vector<at::Tensor> to_reduce;
  to_reduce.reserve(dense.size());
  bool all_missing = true;
  bool in_place = true;
  for (const SentGradient& one : dense) {
    to_reduce.push_back(one.to_reduce());
    all_missing = all_missing && one.is_missing;
    in_place = in_place && is_reduced_in_place(one.values);
  }
  Flight& flight = flights_[outgoing.unit];
  flight.dense_is_settled = true;  // from here on the call gives itself up
  // Where a copy is made first, the values are ready when the copy is.
  std::shared_ptr<Operation> operation =
      make_allreduce(call, to_reduce, reduction_of(options_, ""), in_place ? ready : nullptr);
  call.or_give_up([&] {
    if (operation->on_device != nullptr) ready = operation->on_device->ready;
    operation->absent = all_missing;
    for (std::size_t i = 0; i < dense.size(); ++i) {
      const Parameter& parameter = table_[dense[i].parameter];
      if (dense[i].packed.defined()) set_outside(*operation, i, dense[i].values);
      if (dense.size() > 1) operation->descriptor.tensors[i].name = parameter.name;
      // The engine copies the result back, which counts as a change.
      if (dense[i].values.is_same(parameter.tensor.grad()) && !is_reduced_in_place(dense[i].values))
        senders_[dense[i].parameter].sent.reset();
    }
  });
  flight.dense = std::move(outgoing.dense);
  flight.reduction = kolo::submit(call, std::move(operation));
}

// Notes that the other ranks do not wait for the parameter any more. False if it was noted before.
bool Outbox::Flight::settle_sparse(std::size_t parameter) {
  if (std::find(settled_sparse.begin(), settled_sparse.end(), parameter) != settled_sparse.end())
    return false;
  settled_sparse.push_back(parameter);
  return true;
}

// For the next reduction.
void Outbox::Flight::begin_anew() {
  dense_is_settled = false;
  settled_sparse.clear();
}

bool Outbox::has_own_compression() const {
  return options_.compression().make() != nullptr && options_.process_set().size() > 1;
}

std::unique_ptr<CompressedExchange> Outbox::compress(const OutgoingUnit& outgoing) {
  std::vector<GradientCompressor*> compressors;
  std::vector<at::Tensor> gradients;
  for (const SentGradient& one : outgoing.dense) {
    const Parameter& parameter = table_[one.parameter];
    std::unique_ptr<GradientCompressor>& compressor = senders_[one.parameter].compressor;
    if (compressor == nullptr) compressor = options_.compression().make()(parameter.tensor);
    if (compressor == nullptr) {
      throw InvalidArgumentError("the compression's function returned no compressor for " +
                                 parameter.name);
    }
    compressors.push_back(compressor.get());
    gradients.push_back(one.values.detach());
  }
  auto exchange = std::make_unique<CompressedExchange>(
      std::move(compressors), gradients,
      reduction_of(options_, table_.units()[outgoing.unit].name));
  // A compressor may have written to the gradient, which gets other values in the end.
  for (const SentGradient& one : outgoing.dense) {
    std::optional<SeenTensor>& sent = senders_[one.parameter].sent;
    if (sent) sent = SeenTensor(table_[one.parameter].tensor.grad());
  }
  return exchange;
}

void Outbox::submit_compressed(OutgoingUnit outgoing) {
  std::unique_ptr<CompressedExchange> exchange = compress(outgoing);
  Flight& flight = flights_[outgoing.unit];
  flight.dense_is_settled = true;  // from here on the call gives itself up
  exchange->begin();
  flight.dense = std::move(outgoing.dense);
  flight.compressed = std::move(exchange);
}

void Outbox::give_up(std::size_t unit, const std::string& why) {
  Flight& flight = flights_[unit];
  const auto report = [&](OpKind kind, const std::string& name) {
    Call("DistributedOptimizer", name_of(kind), kind, name, options_.process_set()).give_up(why);
  };
  bool has_dense = false;
  for (const std::size_t member : table_.units()[unit].members) {
    const Parameter& parameter = table_[member];
    if (!parameter.tensor.requires_grad()) continue;
    if (parameter.layout != Layout::kSparse) {
      has_dense = true;
    } else if (flight.settle_sparse(member)) {
      report(OpKind::kAllgather, parameter.name + ".sparse");
    }
  }
  if (has_dense && !std::exchange(flight.dense_is_settled, true))
    report(OpKind::kAllreduce, table_.units()[unit].name);
}

// --- back ---

void Outbox::wait(FirstError& error) {
  WaitsOnDevice results;
  GradientWriter writer;
  for (Flight& flight : flights_) {
    if (flight.reduction) error.catch_from([&] { finish_dense(flight, results, writer); });
    finish_sparse(flight, results, error);
    begin_second_exchange(flight, error);
  }
  for (Flight& flight : flights_) {
    flight.begin_anew();
    if (flight.compressed != nullptr) error.catch_from([&] { finish_compressed(flight, writer); });
  }
  error.catch_from([&] { writer.finish(); });
}

// Waits for a unit, and returns what was reduced: nothing if no rank had any of it.
std::vector<SentGradient> Outbox::arrived(Flight& flight, WaitsOnDevice& results) {
  const Submission submission = std::move(*flight.reduction);
  flight.reduction.reset();
  std::vector<SentGradient> dense = std::exchange(flight.dense, {});
  submission.wait(std::nullopt, results);
  if (submission.operation->absent_everywhere()) dense.clear();
  return dense;
}

// Throws if something other than kolo has changed the gradient since it was sent. The reduction may
// have used either value, here and on other ranks.
void Outbox::end_flight(std::size_t parameter) {
  const std::optional<SeenTensor> sent = std::exchange(senders_[parameter].sent, {});
  if (!sent || !sent->is_changed(table_[parameter].tensor.grad())) return;
  throw InvalidArgumentError("the gradient of " + table_[parameter].name +
                             " was changed while it was being reduced, by another thread or a "
                             "hook; change it after backward() has returned");
}

// On the host a gradient is copied as soon as it has arrived, while others are still under way. On
// a device all are copied together.
void Outbox::finish_dense(Flight& flight, WaitsOnDevice& results, GradientWriter& writer) {
  for (const SentGradient& one : arrived(flight, results)) {
    end_flight(one.parameter);
    if (!one.values.is_same(table_[one.parameter].tensor.grad())) use_on_device(one.values);
    writer.write(table_[one.parameter].tensor, one.values);
  }
  writer.finish_host();
}

// A gradient that no rank has stays undefined.
void Outbox::finish_sparse(Flight& flight, WaitsOnDevice& results, FirstError& error) {
  for (auto& [parameter, reduction] : std::exchange(flight.sparse, {})) {
    error.catch_from([&, index = parameter, &one = reduction] {
      one.submission.wait(std::nullopt, results);
      if (one.submission.operation->absent_everywhere()) return;
      const at::Tensor reduced = one.result();
      end_flight(index);
      table_[index].tensor.mutable_grad() = reduced;
    });
  }
}

void Outbox::begin_second_exchange(Flight& flight, FirstError& error) {
  if (flight.compressed == nullptr) return;
  bool went_well = false;
  error.catch_from([&] {
    flight.compressed->begin_second();
    went_well = true;
  });
  if (!went_well) flight.compressed.reset();
}

void Outbox::finish_compressed(Flight& flight, GradientWriter& writer) {
  const std::unique_ptr<CompressedExchange> exchange = std::move(flight.compressed);
  const std::vector<SentGradient> dense = std::exchange(flight.dense, {});
  exchange->finish([&](std::size_t position, const at::Tensor& gradient) {
    const std::size_t index = dense[position].parameter;
    const Parameter& parameter = table_[index];
    end_flight(index);
    if (gradient.sizes() != parameter.tensor.sizes()) {
      throw InvalidArgumentError("the compression of " + parameter.name +
                                 " gives a gradient of shape " + to_string(gradient.sizes().vec()) +
                                 " instead of " + to_string(parameter.tensor.sizes().vec()));
    }
    writer.write(parameter.tensor, gradient);
    writer.finish();  // the compressors may use the tensor again
  });
}

// --- steps ---

void Outbox::send_steps(const std::vector<at::Tensor>& steps, FirstError& error) {
  std::vector<OutgoingUnit> units;
  for (std::size_t unit = 0; unit < flights_.size(); ++unit) {
    OutgoingUnit& outgoing = units.emplace_back(OutgoingUnit{unit, {}});
    for (const std::size_t member : table_.units()[unit].members) {
      const at::Tensor& parameter = table_[member].tensor;
      // The step itself may have added parameters.
      if (!parameter.requires_grad() || member >= steps.size()) continue;
      outgoing.dense.push_back({member, steps[member], {}, !parameter.grad().defined()});
    }
  }
  submit(std::move(units), error);
}

void Outbox::wait_for_steps(const Apply& apply, FirstError& error) {
  WaitsOnDevice results;
  for (Flight& flight : flights_) {
    flight.begin_anew();
    if (!flight.reduction) continue;
    error.catch_from([&] {
      for (const SentGradient& one : arrived(flight, results)) apply(one.parameter, one.values);
    });
  }
}

}  // namespace kolo::detail
