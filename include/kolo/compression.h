// Compression of gradients that are sent between ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo {

// Interface for compressions that a program implements. A DistributedOptimizer keeps one of these
// for each parameter on each rank, so it may have state, such as the part of earlier gradients that
// was not sent. In every backward() that reduces, the optimizer calls compress(), compress_again()
// and decompress() once each, on all ranks alike, without recording gradients.
//
// kolo reduces the result of compress() like gradients, with the optimizer's op. So a compression
// must be linear, as low-rank factors and changes of the dtype are. An undefined gradient counts as
// zeros, even if it is undefined on every rank. If compress() or compress_again() throws, the other
// ranks get a MismatchError; if decompress() throws, they have their gradient already. The
// functions must not call the optimizer.
class GradientCompressor {
 public:
  GradientCompressor() = default;
  virtual ~GradientCompressor() = default;
  GradientCompressor(const GradientCompressor&) = delete;
  GradientCompressor& operator=(const GradientCompressor&) = delete;

  // Returns the tensors that are reduced instead of the gradient. Their number, dtypes and shapes
  // must be the same on all ranks. They must not alias `gradient`, because they are reduced in
  // place.
  virtual std::vector<at::Tensor> compress(const at::Tensor& gradient) = 0;
  // Returns the tensors of a second exchange, which depends on the result of the first one; the
  // same rules apply. The default returns no tensors, so there is no second exchange.
  virtual std::vector<at::Tensor> compress_again(const std::vector<at::Tensor>& reduced);
  // Returns the reduced gradient, with the gradient's shape, from the result of the last exchange.
  virtual at::Tensor decompress(const std::vector<at::Tensor>& reduced) = 0;
};

// The compression of a DistributedOptimizer. With one rank it does nothing.
class Compression {
 public:
  // Gradients are sent as they are.
  static const Compression None;
  // float32 and float64 are sent as float16.
  static const Compression Fp16;
  // float32 and float64 are sent as bfloat16.
  static const Compression Bf16;

  // Makes a parameter's compressor when its first gradient is sent.
  using Make = std::function<std::unique_ptr<GradientCompressor>(const at::Tensor& parameter)>;
  // Makes a compression of the program's own, from a function that converts to Make:
  // [](const at::Tensor& parameter) { return std::make_unique<Mine>(parameter); }
  template <class Function,
            class = std::enable_if_t<!std::is_same_v<std::decay_t<Function>, Compression> &&
                                     std::is_convertible_v<Function, Make>>>
  Compression(Function&& make) : make_(std::forward<Function>(make)) {}

  // The dtype in which float32 and float64 are sent. Without a value they are sent unchanged.
  std::optional<at::ScalarType> dtype() const { return dtype_; }
  // Null, unless the compression is the program's own.
  const Make& make() const { return make_; }

 private:
  explicit Compression(std::optional<at::ScalarType> dtype) : dtype_(dtype) {}

  std::optional<at::ScalarType> dtype_;
  Make make_;
};

inline const Compression Compression::None{std::optional<at::ScalarType>()};
inline const Compression Compression::Fp16{std::optional<at::ScalarType>(at::kHalf)};
inline const Compression Compression::Bf16{std::optional<at::ScalarType>(at::kBFloat16)};

}  // namespace kolo
