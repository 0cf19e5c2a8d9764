#include "trainer/nonfinite.hpp"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <map>
#include <memory>

namespace kolo::trainer {
namespace {

bool is_bad(const at::Tensor& tensor, Bad bad) {
  if (!tensor.defined() || tensor.numel() == 0) return false;
  if (!tensor.is_floating_point() && !tensor.is_complex()) return false;
  return (bad == Bad::NaN ? at::isnan(tensor) : at::isinf(tensor)).any().item<bool>();
}

template <class Values, class Use>
void for_each_tensor(const Values& values, const Use& use) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      use(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) use(tensor);
    }
  }
}

// Observes the outermost operations that a thread calls. Operations nested in these may return
// memory that has no values yet.
class Search {
 public:
  Search(const torch::nn::Module& module, Bad bad) : bad_(bad) {
    for (const auto& entry : module.named_parameters())
      owners_.emplace(entry.value().unsafeGetTensorImpl(), owner_of(entry.key()));
  }

  void begin(const at::RecordFunction& operation) {
    if (depth_++ > 0 || !operation_.empty()) return;
    // LibTorch provides the inputs only here.
    uses_owner_ = false;
    for_each_tensor(operation.inputs(), [&](const at::Tensor& tensor) {
      const auto known = owners_.find(tensor.unsafeGetTensorImpl());
      if (known == owners_.end()) return;
      owner_ = known->second;
      uses_owner_ = true;
    });
  }

  void end(const at::RecordFunction& operation) {
    if (--depth_ > 0 || !operation_.empty()) return;
    const std::string name = operation.name();
    if (name.find("empty") == std::string::npos && has_bad_output(operation)) operation_ = name;
  }

  std::string result() const {
    const std::string what = bad_ == Bad::NaN ? "NaN" : "infinite";
    if (operation_.empty()) return "computed again, no output is " + what;
    const std::string where =
        owner_.empty() ? "" : (uses_owner_ ? " in module \"" : " after module \"") + owner_ + "\"";
    return "the first output that is " + what + " is that of " + operation_ + where;
  }

 private:
  // Returns "layer.0" for "layer.0.weight". A parameter of the module itself is returned as it is.
  static std::string owner_of(const std::string& parameter) {
    const std::size_t dot = parameter.rfind('.');
    return dot == std::string::npos ? parameter : parameter.substr(0, dot);
  }

  bool has_bad_output(const at::RecordFunction& operation) const {
    bool found = false;
    for_each_tensor(operation.outputs(),
                    [&](const at::Tensor& tensor) { found = found || is_bad(tensor, bad_); });
    return found;
  }

  const Bad bad_;
  std::map<const c10::TensorImpl*, std::string> owners_;  // module names, by parameter
  int depth_ = 0;                                         // nesting of operations in progress
  std::string owner_;        // the module whose parameter was used last
  bool uses_owner_ = false;  // by the operation itself
  std::string operation_;    // the first one with a bad output
};

// LibTorch's callbacks take no argument from the program.
thread_local Search* search_of_thread = nullptr;

std::unique_ptr<at::ObserverContext> begin_operation(const at::RecordFunction& operation) {
  search_of_thread->begin(operation);
  return nullptr;
}

void end_operation(const at::RecordFunction& operation, at::ObserverContext* /*context*/) {
  const at::DisableRecordFunctionGuard not_of_our_own;
  search_of_thread->end(operation);
}

class Watch {
 public:
  explicit Watch(Search& search)
      : handle_(
            at::addThreadLocalCallback(at::RecordFunctionCallback(begin_operation, end_operation)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}))) {
    search_of_thread = &search;
  }
  ~Watch() {
    at::removeCallback(handle_);
    search_of_thread = nullptr;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  const at::CallbackHandle handle_;
};

}  // namespace

std::string first_nonfinite(const torch::nn::Module& module, Bad bad,
                            const std::function<void()>& compute) {
  const at::NoGradGuard no_grad;
  Search search(module, bad);
  {
    const Watch watch(search);
    compute();
  }
  const std::string what = bad == Bad::NaN ? "NaN" : "infinite";
  for (const auto& entry : module.named_parameters()) {
    if (is_bad(entry.value(), bad)) return "parameter \"" + entry.key() + "\" is " + what;
  }
  for (const auto& entry : module.named_buffers()) {
    if (is_bad(entry.value(), bad)) return "buffer \"" + entry.key() + "\" is " + what;
  }
  return search.result();
}

}  // namespace kolo::trainer
