// What backward() needs of the call, kept in a capsule beside autograd's graph.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

namespace kolo {

template <typename Saved>
struct Capsule : torch::CustomClassHolder {
  explicit Capsule(Saved value) : saved(std::move(value)) {}
  Saved saved;
};
template <typename Saved>
void save(torch::autograd::AutogradContext* ctx, Saved saved) {
  ctx->saved_data["kolo"] =
      c10::IValue::make_capsule(c10::make_intrusive<Capsule<Saved>>(std::move(saved)));
}
template <typename Saved>
Saved& saved_in(torch::autograd::AutogradContext* ctx) {
  return static_cast<Capsule<Saved>*>(ctx->saved_data["kolo"].toCapsule().get())->saved;
}

}  // namespace kolo
