#include "torch_ops/optimizer/backward_pass.hpp"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "core/exception.hpp"
#include "torch_ops/optimizer/first_error.hpp"
#include "torch_ops/optimizer/gradient_hooks.hpp"

namespace kolo::detail {
namespace {

using torch::autograd::Engine;
using torch::autograd::variable_list;

// Autograd hands a thread's debug information on to every thread that computes for it, so a nested
// call finds the pass wherever it is made.
struct PassInfo : c10::DebugInfoBase {
  BackwardPass pass;
};

// LibTorch itself uses this kind in its mobile interpreter only.
c10::DebugInfoKind kind() {
  return c10::DebugInfoKind::PRODUCER_INFO;
}

// Autograd's engine with a pass around each call. A callback that the engine offers
// (queue_callback()) would not do: it runs at the end of the innermost call, and not after an
// error.
class WatchedEngine final : public Engine {
 public:
  explicit WatchedEngine(Engine& engine) : engine_(engine) {}

  variable_list execute(const torch::autograd::edge_list& roots, const variable_list& inputs,
                        bool keep_graph, bool create_graph, bool accumulate_grad,
                        const torch::autograd::edge_list& outputs) override {
    const auto run = [&] {
      return engine_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    };
    if (BackwardPass::current() != nullptr) return run();
    const auto mine = std::make_shared<PassInfo>();
    variable_list gradients;
    try {
      const c10::DebugInfoGuard guard(kind(), mine);
      gradients = run();
    } catch (...) {
      mine->pass.fail(text_of(std::current_exception()));
      throw;
    }
    mine->pass.end();
    return gradients;
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task, NodePointer graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    return engine_.execute_with_graph_task(graph_task, std::move(graph_root),
                                           std::move(input_buffer));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return engine_.make_anomaly_metadata();
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return engine_.get_default_saved_variable_hooks();
  }

 private:
  Engine& engine_;
};

std::atomic<Engine*>& watched() {
  static std::atomic<Engine*> engine{nullptr};
  return engine;
}

}  // namespace

void BackwardPass::watch() {
  Engine& engine = Engine::get_default_engine();
  if (&engine == watched()) return;  // another library may have set its own since
  // Never destroyed, as threads may be in it until the process ends.
  watched() = new WatchedEngine(engine);
  torch::autograd::set_default_engine_stub([]() -> Engine& { return *watched(); });
}

BackwardPass* BackwardPass::current() {
  auto* const mine = dynamic_cast<PassInfo*>(c10::ThreadLocalDebugInfo::get(kind()));
  return mine == nullptr ? nullptr : &mine->pass;
}

bool BackwardPass::add(std::shared_ptr<Member> member) {
  const MutexLock lock(mutex_);
  if (ended_) return false;
  members_.push_back(std::move(member));
  return true;
}

std::vector<std::shared_ptr<BackwardPass::Member>> BackwardPass::take_members() {
  const MutexLock lock(mutex_);
  ended_ = true;
  std::vector<std::shared_ptr<Member>> members = std::exchange(members_, {});
  std::sort(members.begin(), members.end(),
            [](const auto& one, const auto& other) { return one->name() < other->name(); });
  return members;
}

void BackwardPass::end() {
  const auto members = take_members();
  FirstError error;
  for (const auto& member : members) error.catch_from([&] { member->submit(); });
  for (const auto& member : members) error.catch_from([&] { member->wait(); });
  error.rethrow();
}

void BackwardPass::fail(const std::string& why) noexcept {
  FirstError ignored;  // the program gets the exception that ended backward()
  for (const auto& member : take_members()) ignored.catch_from([&] { member->fail(why); });
}

}  // namespace kolo::detail
