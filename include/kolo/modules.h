// What kolo takes for a module: a torch::nn::Module, a holder of one (torch::nn::Linear, and what
// TORCH_MODULE makes), or a std::shared_ptr to one.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace kolo {
namespace detail {

// A class with ptr(), which gives a std::shared_ptr to a module.
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

// A holder or a std::shared_ptr.
template <class T>
inline constexpr bool refers_to_module =
    IsModuleHolder<std::decay_t<T>>::value || IsModulePointer<std::decay_t<T>>::value;
template <class T>
inline constexpr bool is_module =
    std::is_base_of_v<torch::nn::Module, std::decay_t<T>> || refers_to_module<T>;

template <class T>
const torch::nn::Module& module_in(const T& module) {
  if constexpr (IsModuleHolder<T>::value) {
    return *module.ptr();
  } else if constexpr (IsModulePointer<T>::value) {
    return *module;
  } else {
    return module;
  }
}

}  // namespace detail
}  // namespace kolo
