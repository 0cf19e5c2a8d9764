#include "benchmarks/reducer.hpp"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "benchmarks/group.hpp"
#include "core/thread_annotations.hpp"

namespace kolo::bench {
namespace {

// An operation on a tensor, in place.
class MpiWork final : public c10d::Work {
 public:
  MpiWork(c10d::OpType type, at::Tensor tensor)
      : Work(-1, type),
        tensor_(std::move(tensor)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors())) {}

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // By the thread that calls MPI, once.
  void complete(const std::function<void(const at::Tensor& tensor)>& operation) {
    try {
      operation(tensor_);
    } catch (...) {
      finish(std::current_exception());
      future_->setError(std::current_exception());
      return;
    }
    finish();
    future_->markCompleted(std::vector<at::Tensor>{tensor_});
  }

 private:
  const at::Tensor tensor_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// What c10d::Reducer needs of a backend: sums of float32, and broadcasts from rank 0 where it
// agrees on buckets.
class MpiBackend final : public c10d::Backend {
 public:
  explicit MpiBackend(std::unique_ptr<Group> group)
      : Backend(group->rank(), group->size()),
        group_(std::move(group)),
        thread_([this] { run(); }) {}

  // Carries out what is pending.
  ~MpiBackend() override {
    push(std::nullopt);
    thread_.join();
  }
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;

  const std::string getBackendName() const override { return "kolo-bench-mpi"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& /*options*/) override {
    return begin(c10d::OpType::ALLREDUCE, tensors, [this](const at::Tensor& tensor) {
      group_->allreduce_sum(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()));
    });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& /*options*/) override {
    return begin(c10d::OpType::BROADCAST, tensors, [this](const at::Tensor& tensor) {
      group_->broadcast_bytes(tensor.data_ptr(), tensor.nbytes());
    });
  }

 private:
  struct Entry {
    c10::intrusive_ptr<MpiWork> work;
    std::function<void(const at::Tensor& tensor)> operation;
  };

  c10::intrusive_ptr<c10d::Work> begin(c10d::OpType type, const std::vector<at::Tensor>& tensors,
                                       std::function<void(const at::Tensor& tensor)> operation) {
    TORCH_CHECK(tensors.size() == 1 && tensors.front().is_contiguous(), "one contiguous tensor");
    auto work = c10::make_intrusive<MpiWork>(type, tensors.front());
    push(Entry{work, std::move(operation)});
    return work;
  }

  // Nothing: the end.
  void push(std::optional<Entry> entry) KOLO_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      queue_.push_back(std::move(entry));
    }
    there_is_more_.notify_one();
  }

  std::optional<Entry> pop() KOLO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (queue_.empty()) there_is_more_.wait(mutex_);
    std::optional<Entry> entry = std::move(queue_.front());
    queue_.pop_front();
    return entry;
  }

  void run() {
    while (const std::optional<Entry> entry = pop()) entry->work->complete(entry->operation);
  }

  const std::unique_ptr<Group> group_;  // used by the thread alone
  Mutex mutex_;
  CondVar there_is_more_;
  std::deque<std::optional<Entry>> queue_ KOLO_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all the others
};

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

// In place of the average. The reducer divides while it copies gradients into buckets, so that
// takes as long.
class Sum final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> tensors = {bucket.getBuffer()};
    return state_->allreduce(tensors)->getFuture();
  }
};

ProcessGroup make_process_group() {
  auto group = std::make_unique<Group>();
  auto processes = c10::make_intrusive<c10d::ProcessGroup>(group->rank(), group->size());
  processes->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                        c10::make_intrusive<MpiBackend>(std::move(group)));
  return processes;
}

// The last parameters first, whose gradients are.
std::vector<std::vector<std::size_t>> first_buckets(const std::vector<at::Tensor>& parameters) {
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      parameters, {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap}));
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

class C10dReducer final : public OverlappingReducer {
 public:
  explicit C10dReducer(const std::vector<at::Tensor>& parameters)
      : processes_(make_process_group()),
        reducer_(parameters, first_buckets(parameters), processes_,
                 std::vector<bool>(parameters.size(), false), c10d::kDefaultBucketBytesCap,
                 /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
                 /*param_names=*/{}, c10d::kDefaultFirstBucketBytes,
                 /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
                 /*bucket_bytes_cap_list=*/{}) {
    reducer_.register_comm_hook(std::make_unique<Sum>(processes_));
  }
  ~C10dReducer() noexcept override = default;  // the reducer's need not be
  C10dReducer(const C10dReducer&) = delete;
  C10dReducer& operator=(const C10dReducer&) = delete;

  void before_forward() override {
    reducer_.prepare_for_forward();
    reducer_.rebuild_buckets();  // after the first backward, in the order that it had
  }
  void before_backward() override { reducer_.prepare_for_backward({}); }

 private:
  const ProcessGroup processes_;
  c10d::Reducer reducer_;
};

}  // namespace

std::unique_ptr<OverlappingReducer> make_reducer(const std::vector<at::Tensor>& parameters) {
  return std::make_unique<C10dReducer>(parameters);
}

}  // namespace kolo::bench
