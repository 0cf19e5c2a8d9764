// Samples that are read by index, from any source.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <torch/data/example.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo {
namespace data {

// Samples along dimension 0 of `data`, and their targets along dimension 0 of `target`, which is
// undefined if the dataset has no targets.
using Batch = torch::data::Example<>;

}  // namespace data

namespace detail {

// Make a batch of the result of get_batch() of a LibTorch dataset. Throw InvalidArgumentError if
// there are no samples.
data::Batch to_batch(std::vector<torch::data::Example<>> samples);
data::Batch to_batch(std::vector<torch::data::TensorExample> samples);
data::Batch to_batch(data::Batch batch);

template <class T, class = void>
struct IsLibTorchDataset : std::false_type {};
template <class T>
struct IsLibTorchDataset<T, std::void_t<decltype(to_batch(std::declval<T&>().get_batch(
                                            std::declval<c10::ArrayRef<std::size_t>>()))),
                                        decltype(std::declval<const T&>().size().value())>>
    : std::true_type {};

std::size_t known_size(std::optional<std::size_t> size);

// Whether a dataset stacks the samples of a batch by itself, as kolo::data::MNIST does. A class
// that inherits this does not count, because it may override how a sample is made.
template <class T, class = void>
struct StacksBatches : std::false_type {};
template <class T>
struct StacksBatches<T, std::void_t<decltype(&T::get_stacked_batch)>>
    : std::is_same<decltype(&T::get_stacked_batch),
                   data::Batch (T::*)(c10::ArrayRef<std::size_t>) const> {};

template <class T>
data::Batch batch_of(T& dataset, c10::ArrayRef<std::size_t> indices) {
  if constexpr (StacksBatches<T>::value) {
    return dataset.get_stacked_batch(indices);
  } else {
    return to_batch(dataset.get_batch(indices));
  }
}

}  // namespace detail

namespace data {

// Any source of samples: two tensors, a function, or a LibTorch dataset such as kolo::data::MNIST,
// with or without transforms. If the dataset returns single samples, kolo stacks them, so
// map(torch::data::transforms::Stack<>()) is not needed. If its class declares Batch
// get_stacked_batch(c10::ArrayRef<std::size_t>) const, kolo calls that function instead of
// get_batch().
//
// Copying a Dataset also copies its source. Each worker thread of a loader reads from its own copy,
// in all epochs. Copies share tensors. Not collective.
class Dataset {
 public:
  // Makes a dataset without samples.
  Dataset() = default;
  // Sample i is data[i] with target[i]. InvalidArgumentError if the numbers of samples differ, or a
  // tensor has no dimension.
  Dataset(const at::Tensor& samples, const at::Tensor& targets);
  // Sample i, below `size`, is get(i). Its tensors have no batch dimension.
  Dataset(std::size_t size, std::function<Batch(std::size_t)> get);
  // A LibTorch dataset: a class with size() and get_batch(indices). InvalidArgumentError if it does
  // not know its size.
  template <class T,
            std::enable_if_t<kolo::detail::IsLibTorchDataset<std::decay_t<T>>::value, int> = 0>
  Dataset(T&& dataset)  // NOLINT(bugprone-forwarding-reference-overload): no Dataset matches
      : size_(kolo::detail::known_size(dataset.size())),
        get_batch_([held = std::decay_t<T>(std::forward<T>(dataset))](
                       c10::ArrayRef<std::size_t> indices) mutable {
          return kolo::detail::batch_of(held, indices);
        }) {}

  // The number of samples.
  std::size_t size() const { return size_; }
  // Returns the samples of these indices, in their order. One thread at a time for each copy.
  // InvalidArgumentError for an index that is not below size(), for no indices, and if the source
  // returns another number of samples or targets than was requested.
  Batch get_batch(c10::ArrayRef<std::size_t> indices) const;

 private:
  std::size_t size_ = 0;
  std::function<Batch(c10::ArrayRef<std::size_t>)> get_batch_;
};

}  // namespace data
}  // namespace kolo
