#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <mutex>

#include "checkpoint/components.hpp"

namespace kolo::checkpoint {
namespace {

struct Source {
  std::string name;
  at::Generator generator;
};

// The random generators of this rank: that of the CPU, and one for each visible device.
std::vector<Source> sources() {
  at::Context& context = at::globalContext();
  std::vector<Source> all = {{"cpu", context.defaultGenerator(at::kCPU)}};
  if (!at::Context::hasCUDA()) return all;
  for (int device = 0; device < static_cast<int>(at::detail::getCUDAHooks().deviceCount());
       ++device) {
    all.push_back(
        {"cuda" + std::to_string(device),
         context.defaultGenerator(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device)))});
  }
  return all;
}

at::Tensor state_of(at::Generator& generator) {
  const std::scoped_lock<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

class RandomComponent : public Component {
 public:
  RandomComponent() : Component("random") {}

  void capture(Capture& capture) const override {
    for (Source& source : sources()) {
      capture.tensor(inside({source.name}), state_of(source.generator),
                     {Kind::kPerRank, std::nullopt, {}});
    }
  }

  // A device that the file lacks keeps its state, because machines may have different devices.
  void restore(Request& request) override {
    for (Source& source : sources()) {
      if (!request.has(inside({source.name}))) continue;
      const at::Tensor state = state_of(source.generator).clone();
      if (request.tensor(inside({source.name}), state, {Kind::kPerRank, std::nullopt, {}})) {
        request.then([source, state]() mutable {
          const std::scoped_lock<std::mutex> lock(source.generator.mutex());
          source.generator.set_state(state);
        });
      }
    }
  }
};

}  // namespace

Added random_component() {
  return std::make_unique<RandomComponent>();
}

}  // namespace kolo::checkpoint
