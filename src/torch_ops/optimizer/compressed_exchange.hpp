// Gradients that a program's own compressors send.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kolo/compression.h"
#include "kolo/handle.h"
#include "kolo/operations.h"

namespace kolo::detail {

// Those that are reduced together, in one backward(). All ranks make the same calls.
class CompressedExchange {
 public:
  // Compresses. `compressors` and `gradients`: one for each parameter. `options` have the name and
  // the op of the reduction.
  CompressedExchange(std::vector<GradientCompressor*> compressors,
                     const std::vector<at::Tensor>& gradients, AllreduceOptions options);

  // Begins to reduce what was compressed.
  void begin();
  // Waits for that, and begins the second exchange if there is one.
  void begin_second();
  // Waits. Calls take() with the reduced gradient of each parameter, in their order.
  using Take = std::function<void(std::size_t position, const at::Tensor& gradient)>;
  void finish(const Take& take);

 private:
  using PerParameter = std::vector<std::vector<at::Tensor>>;
  void send(const PerParameter& tensors, const std::string& name);
  void wait();

  const std::vector<GradientCompressor*> compressors_;
  const AllreduceOptions options_;
  PerParameter tensors_;               // what was sent last, and has been reduced after wait()
  std::optional<GroupHandle> handle_;  // of what is on its way
};

}  // namespace kolo::detail
