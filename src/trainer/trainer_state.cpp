#include "trainer/trainer_state.hpp"

#include <ATen/ATen.h>

#include <utility>

#include "kolo/callbacks.h"
#include "kolo/init.h"
#include "trainer/trainer_options.hpp"

namespace kolo {

Trainer::State::State(std::shared_ptr<torch::nn::Module> its_module, Forward its_forward,
                      Function its_loss, const TrainerOptions& its_options)
    : options(its_options),
      device(trainer::device_of(its_options)),
      ranks(its_options.distributed() ? size() : 1),
      rank(is_initialized() ? kolo::rank() : 0),
      module(std::move(its_module)),
      forward(std::move(its_forward)),
      loss(std::move(its_loss)),
      scaler(GradScalerOptions().enabled(its_options.precision() == at::kHalf)) {}

// Keeps the strongest wish.
void Trainer::State::ask(trainer::Wish asked, const std::string& reason) {
  if (asked <= wish) return;
  wish = asked;
  progress.stop_reason = reason.empty() ? "the program asked to stop" : reason;
}

trainer::EpochMeans& Trainer::State::own_means() {
  const bool at_once = device.is_cpu() || options.name_nonfinite();
  if (!means) means.emplace(metrics.size() + 1, device, at_once ? 1 : trainer::kBatchesPerFetch);
  return *means;
}

at::Tensor Trainer::State::output_of(const data::Batch& batch) const {
  if (options.precision() == at::kFloat) return forward(batch.data);
  const AutocastGuard autocast(device.type(), options.precision());
  return forward(batch.data).to(at::kFloat);
}

std::vector<at::Tensor> Trainer::State::numbers_of(const at::Tensor& output,
                                                   const data::Batch& batch) const {
  std::vector<at::Tensor> numbers{loss(output, batch.target)};
  const at::NoGradGuard no_grad;
  for (const auto& [name, function] : metrics)
    numbers.push_back(function(output.detach(), batch.target));
  return numbers;
}

void Trainer::State::call(Trainer& trainer, void (Callback::*function)(Trainer&), bool last) {
  for (const std::shared_ptr<Callback>& callback : callbacks) {
    if (callback->is_last() == last) (*callback.*function)(trainer);
  }
}

void Trainer::State::call(Trainer& trainer, void (Callback::*function)(Trainer&)) {
  call([&](Callback& callback) { (callback.*function)(trainer); });
}

void Trainer::State::call(const std::function<void(Callback&)>& use) {
  for (const bool last : {false, true}) {
    for (const std::shared_ptr<Callback>& callback : callbacks)
      if (callback->is_last() == last) use(*callback);
  }
}

}  // namespace kolo
