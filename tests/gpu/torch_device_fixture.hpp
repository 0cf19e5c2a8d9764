// What tests with CUDA tensors have in common.
#pragma once

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/torch.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "gpu/has_gpu.hpp"
#include "torch_ops/everywhere.hpp"
#include "torch_ops/fixture.hpp"

namespace kolo {

class CudaTensors : public testing_support::WithKolo {
 protected:
  void SetUp() override {
    WithKolo::SetUp();
#ifndef KOLO_FAKE_CUDA
    if (!has_gpu()) GTEST_SKIP() << kNoGpu;
    const char* const shares = std::getenv("KOLO_SHARE_DEVICE");
    if (local_size() > device_count() && (shares == nullptr || std::string_view(shares) != "1"))
      GTEST_SKIP() << "no GPU for each rank; cuda_test.shared lets them share one";
#endif
    device_ = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(local_device()));
  }

  at::TensorOptions on_device(at::ScalarType type = at::kFloat) const {
    return at::TensorOptions().device(*device_).dtype(type);
  }
  at::Device device() const {
    return *device_;
  }
  static int device_count() {
    local_device();  // loads LibTorch's CUDA half
    return static_cast<int>(c10::impl::getDeviceGuardImpl(at::kCUDA)->deviceCount());
  }
  c10::Stream new_stream() const {
    return c10::impl::getDeviceGuardImpl(at::kCUDA)->getStreamFromGlobalPool(device(), false);
  }

 private:
  std::optional<at::Device> device_;
};

inline void expect_equal(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_TRUE(at::allclose(actual.cpu().to(at::kDouble), expected.cpu().to(at::kDouble)))
      << actual.cpu() << "\n is not\n"
      << expected.cpu();
}

}  // namespace kolo
