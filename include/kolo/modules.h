// Defines what kolo accepts as a module: a torch::nn::Module, a holder of one (torch::nn::Linear,
// or a class made by TORCH_MODULE), a std::shared_ptr to one, or a torch::jit::Module.
#pragma once

#include <ATen/core/Tensor.h>
#include <kolo/error.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo {
namespace detail {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Detects classes with ptr() that returns a std::shared_ptr to a module.
template <class T, class = void>
struct IsModuleHolder : std::false_type {};
template <class T>
struct IsModuleHolder<T, std::void_t<decltype(std::declval<const T&>().ptr())>>
    : std::is_convertible<decltype(std::declval<const T&>().ptr()),
                          std::shared_ptr<torch::nn::Module>> {};

template <class T>
struct IsModulePointer : std::false_type {};
template <class M>
struct IsModulePointer<std::shared_ptr<M>> : std::is_base_of<torch::nn::Module, M> {};

// Detects torch::jit::Module by the elements of its named_parameters(), because its header is
// large.
template <class T, class = void>
struct IsScriptModule : std::false_type {};
template <class T>
struct IsScriptModule<
    T, std::void_t<decltype((*std::declval<const T&>().named_parameters().begin()).name)>>
    : std::is_convertible<decltype((*std::declval<const T&>().named_parameters().begin()).value),
                          at::Tensor> {};

template <class T>
inline constexpr bool refers_to_module =
    IsModuleHolder<std::decay_t<T>>::value || IsModulePointer<std::decay_t<T>>::value;
template <class T>
inline constexpr bool is_module = std::is_base_of_v<torch::nn::Module, std::decay_t<T>> ||
                                  refers_to_module<T> || IsScriptModule<std::decay_t<T>>::value;

template <class List>
NamedTensors named(const List& list) {
  NamedTensors tensors;
  for (const auto& entry : list) tensors.emplace_back(entry.name, entry.value);
  return tensors;
}

// The torch::nn::Module that a holder or pointer refers to, or the module itself. Throws
// InvalidArgumentError for a null pointer; an empty holder throws c10::Error.
template <class T>
auto& module_in(const T& module) {
  if constexpr (IsModuleHolder<T>::value) {
    return *module.ptr();
  } else if constexpr (IsModulePointer<T>::value) {
    if (module == nullptr)
      throw InvalidArgumentError("the pointer to a module is null; make the module first");
    return *module;
  } else {
    return module;
  }
}

// Returns a pointer that shares the module with the holder or pointer. Throws like module_in().
template <class T>
std::shared_ptr<torch::nn::Module> pointer_to_module(const T& module) {
  static_cast<void>(module_in(module));
  if constexpr (IsModuleHolder<T>::value) {
    return module.ptr();
  } else {
    return module;
  }
}

template <class T>
NamedTensors named_parameters_of(const T& module) {
  if constexpr (IsScriptModule<T>::value) {
    return named(module.named_parameters());
  } else {
    return module_in(module).named_parameters().pairs();
  }
}

template <class T>
NamedTensors named_buffers_of(const T& module) {
  if constexpr (IsScriptModule<T>::value) {
    return named(module.named_buffers());
  } else {
    return module_in(module).named_buffers().pairs();
  }
}

// Returns the parameters in the order of LibTorch's parameters(). A parameter with two names is
// listed twice.
template <class T>
std::vector<at::Tensor> parameters_of(const T& module) {
  std::vector<at::Tensor> tensors;
  for (auto& [name, tensor] : named_parameters_of(module)) tensors.push_back(tensor);
  return tensors;
}

}  // namespace detail
}  // namespace kolo
