#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/components.hpp"

namespace kolo::checkpoint {
namespace {

// A tensor with its names. It has several if parts of a module share it.
struct Listed {
  at::Tensor tensor;
  std::vector<std::string> names;
  bool is_parameter = false;
};

class TensorList {
 public:
  void add(const std::string& name, const at::Tensor& tensor, bool is_parameter) {
    if (!tensor.defined()) return;
    const auto [place, is_new] = places_.emplace(tensor.unsafeGetTensorImpl(), all_.size());
    if (is_new) all_.push_back({tensor, {}, is_parameter});
    all_[place->second].names.push_back(name);
  }
  const std::vector<Listed>& all() const { return all_; }

 private:
  std::vector<Listed> all_;
  std::map<const at::TensorImpl*, std::size_t> places_;  // in all_
};

// Saves and restores tensors by name. A tensor with several names is saved once, under the first.
// Only parameters are known to be equal on all ranks.
class NamedTensorsComponent : public Component {
 public:
  using Component::Component;

  void capture(Capture& capture) const override {
    const TensorList list = tensors();
    for (const Listed& one : list.all()) {
      const std::string first = inside({one.names[0]});
      capture.tensor(first, one.tensor, one.is_parameter ? Spread() : of_rank_zero());
      for (std::size_t i = 1; i < one.names.size(); ++i)
        capture.alias(inside({one.names[i]}), first);
    }
  }
  void restore(Request& request) override {
    const TensorList list = tensors();
    for (const Listed& one : list.all()) {
      // The file may know only one of the names.
      const auto known = std::find_if(
          one.names.begin(), one.names.end(),
          [&](const std::string& name) { return request.find(inside({name})) != nullptr; });
      const std::string& wanted = known == one.names.end() ? one.names[0] : *known;
      request.tensor(inside({wanted}), one.tensor);
      for (const std::string& name : one.names)
        if (name != wanted) request.pass_over(inside({name}));
    }
  }

 private:
  virtual TensorList tensors() const = 0;
};

class ModuleComponent : public NamedTensorsComponent {
 public:
  ModuleComponent(const std::string& name, std::shared_ptr<torch::nn::Module> module)
      : NamedTensorsComponent(name), module_(std::move(module)) {}

  void capture(Capture& capture) const override {
    NamedTensorsComponent::capture(capture);
    capture.text(modules_name(name()), empty_modules());
  }

 private:
  TensorList tensors() const override {
    TensorList list;
    for (const auto& parameter : module_->named_parameters())
      list.add(parameter.key(), *parameter, true);
    for (const auto& buffer : module_->named_buffers()) list.add(buffer.key(), *buffer, false);
    return list;
  }

  // Lists submodules without tensors, one per line. Restoring ignores them, but LibTorch's archives
  // contain them, and so do the archives that `kolo checkpoint convert` makes.
  std::string empty_modules() const {
    std::string names;
    for (const auto& entry : module_->named_modules(std::string(), false)) {
      const torch::nn::Module& one = *entry.value();
      if (one.named_parameters().is_empty() && one.named_buffers().is_empty())
        names += entry.key() + "\n";
    }
    return names;
  }

  const std::shared_ptr<torch::nn::Module> module_;  // owns nothing if the program does
};

class TensorsComponent : public NamedTensorsComponent {
 public:
  TensorsComponent(const std::string& name, const kolo::detail::NamedTensors& parameters,
                   const kolo::detail::NamedTensors& buffers)
      : NamedTensorsComponent(name) {
    for (const auto& [its_name, tensor] : parameters) tensors_.add(its_name, tensor, true);
    for (const auto& [its_name, tensor] : buffers) tensors_.add(its_name, tensor, false);
  }

 private:
  TensorList tensors() const override { return tensors_; }

  TensorList tensors_;
};

class TensorComponent : public Component {
 public:
  TensorComponent(const std::string& name, at::Tensor tensor, Spread spread)
      : Component(name), tensor_(std::move(tensor)), spread_(std::move(spread)) {}

  void capture(Capture& capture) const override { capture.tensor(inside({}), tensor_, spread_); }
  void restore(Request& request) override { request.tensor(inside({}), tensor_, spread_); }

 private:
  const at::Tensor tensor_;
  const Spread spread_;
};

class TextComponent : public Component {
 public:
  TextComponent(const std::string& name, std::string& text) : Component(name), text_(text) {}

  void capture(Capture& capture) const override { capture.text(inside({}), text_); }
  void restore(Request& request) override {
    request.text(inside({}), [this](const std::string& text) { text_ = text; });
  }

 private:
  std::string& text_;  // the program's, which outlives the checkpoint
};

class NumberComponent : public Component {
 public:
  NumberComponent(const std::string& name, std::function<c10::IValue()> get,
                  std::function<void(const c10::IValue&)> set)
      : Component(name), get_(std::move(get)), set_(std::move(set)) {}

  void capture(Capture& capture) const override { capture.value(inside({}), now()); }

  void restore(Request& request) override {
    const Value* found = request.find_value(inside({}));
    if (found != nullptr && found->index() != now().index()) {
      constexpr const char* kTypes[] = {"bool", "int64", "float64", "text", "list", "list"};
      request.mismatched(inside({}), std::string("the file has ") + kTypes[found->index()] +
                                         ", the program " + kTypes[now().index()]);
      return;
    }
    request.value(inside({}), [this](const Value& value) {
      if (const auto* truth = std::get_if<bool>(&value)) set_(*truth);
      if (const auto* integer = std::get_if<std::int64_t>(&value)) set_(*integer);
      if (const auto* real = std::get_if<double>(&value)) set_(*real);
    });
  }

 private:
  Value now() const {
    const c10::IValue value = get_();
    if (value.isBool()) return value.toBool();
    if (value.isInt()) return value.toInt();
    return value.toDouble();
  }

  const std::function<c10::IValue()> get_;
  const std::function<void(const c10::IValue&)> set_;
};

}  // namespace

void name_parameters(const torch::nn::Module& module, ParameterNames& names) {
  for (const auto& parameter : module.named_parameters())
    names.emplace(parameter->unsafeGetTensorImpl(), parameter.key());
}

void name_parameters(const kolo::detail::NamedTensors& parameters, ParameterNames& names) {
  for (const auto& [name, parameter] : parameters)
    names.emplace(parameter.unsafeGetTensorImpl(), name);
}

Added module_component(const std::string& name, std::shared_ptr<torch::nn::Module> module) {
  return std::make_unique<ModuleComponent>(name, std::move(module));
}
Added tensors_component(const std::string& name, const kolo::detail::NamedTensors& parameters,
                        const kolo::detail::NamedTensors& buffers) {
  return std::make_unique<TensorsComponent>(name, parameters, buffers);
}
Added tensor_component(const std::string& name, const at::Tensor& tensor, const Spread& spread) {
  return std::make_unique<TensorComponent>(name, tensor, spread);
}
Added text_component(const std::string& name, std::string& text) {
  return std::make_unique<TextComponent>(name, text);
}
Added number_component(const std::string& name, std::function<c10::IValue()> get,
                       std::function<void(const c10::IValue&)> set) {
  return std::make_unique<NumberComponent>(name, std::move(get), std::move(set));
}

}  // namespace kolo::checkpoint
