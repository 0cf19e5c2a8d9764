#include "delivery/tensors.hpp"

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "core/scalar_type.hpp"
#include "kolo/error.h"

namespace kolo::delivery {
namespace {

void add(const at::Tensor& tensor, const char* which, std::vector<at::Tensor>& held,
         Parcel& parcel) {
  const auto refuse = [&](const std::string& what, const char* remedy) {
    throw DataError(std::string("the ") + which + " of a batch " + what +
                    " and cannot be delivered; " + remedy);
  };
  if (!tensor.device().is_cpu())
    refuse("is on " + tensor.device().str(), "leave it on the CPU: the rank copies it to its GPU");
  if (tensor.layout() != at::kStrided || tensor.is_quantized())
    refuse("is not dense", "make it dense in a transform");
  const std::optional<ElementType> type = element_type(tensor.scalar_type());
  if (!type) refuse(std::string("has dtype ") + c10::toString(tensor.scalar_type()), "convert it");
  const at::Tensor dense = tensor.detach().resolve_conj().resolve_neg().contiguous();
  held.push_back(dense);
  parcel.arrays.push_back(
      {*type, dense.sizes().vec(), {static_cast<std::byte*>(dense.data_ptr()), dense.nbytes()}});
}

at::Tensor to_tensor(const Array& array, const std::shared_ptr<void>& owner) {
  const auto options = at::TensorOptions().dtype(scalar_type(array.type));
  if (array.bytes.empty()) return at::empty(array.shape, options);
  return at::from_blob(
      array.bytes.data(), array.shape, [owner](void*) {}, options);
}

}  // namespace

Parcel to_parcel(const data::Batch& batch) {
  Parcel parcel;
  auto held = std::make_shared<std::vector<at::Tensor>>();
  if (!batch.data.defined()) throw DataError("a batch without data cannot be delivered");
  add(batch.data, "data", *held, parcel);
  if (batch.target.defined()) add(batch.target, "target", *held, parcel);
  parcel.owner = std::move(held);
  return parcel;
}

data::Batch to_batch(const Parcel& parcel) {
  if (parcel.arrays.empty() || parcel.arrays.size() > 2) {
    throw DataError("a loader process sent a batch of " + std::to_string(parcel.arrays.size()) +
                    " arrays, where it has 1 or 2");
  }
  data::Batch batch;
  batch.data = to_tensor(parcel.arrays[0], parcel.owner);
  if (parcel.arrays.size() == 2) batch.target = to_tensor(parcel.arrays[1], parcel.owner);
  return batch;
}

}  // namespace kolo::delivery
