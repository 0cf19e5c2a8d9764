// NCCL: communicators whose collectives run on streams, and meet in a hub.
#include <nccl.h>

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_gpu/fake_gpu.hpp"
#include "fake_gpu/hub.hpp"

namespace fake_gpu {
namespace {

// How long a communicator is busy after a call.
constexpr auto kBusy = std::chrono::microseconds(300);

std::atomic<bool> tells{false};
std::atomic<std::size_t> launches{0};
std::atomic<std::size_t> allocations{0};
std::atomic<bool> refuses_memory{false};
std::mutex own_memory_mutex;
std::set<void*> own_memory;  // of ncclMemAlloc()
std::atomic<bool> ends_are_held{false};
std::atomic<int> largest{0};

class Comm {
 public:
  Comm(int rank, int size) : rank_(rank), size_(size) {}
  ~Comm() {
    if (socket_ >= 0) close(socket_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  void connect(const std::string& hub) {
    const int one = connect_to_hub(hub);
    const Hello hello{rank_, size_};
    char go = 0;
    const bool well = one >= 0 && write_all(one, &hello, sizeof hello) && read_all(one, &go, 1);
    const std::lock_guard lock(mutex_);
    socket_ = one;
    if (!well) error_ = ncclSystemError;
    busy_ = false;
  }

  ncclResult_t state() {
    const std::lock_guard lock(mutex_);
    if (error_ != ncclSuccess) return error_;
    return busy_ ? ncclInProgress : ncclSuccess;
  }
  // False if it is busy already: then it must not be called.
  bool get_busy() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(busy_, true);
  }
  void be_free() {
    const std::lock_guard lock(mutex_);
    busy_ = false;
  }

  void abort() {
    cut_off();
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }
  void cut_off() {
    const std::lock_guard lock(mutex_);
    if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
  }

  // Where it has put something.
  void use(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    streams_.insert(stream);
  }
  std::set<cudaStream_t> streams() {
    const std::lock_guard lock(mutex_);
    return streams_;
  }

  // On a stream. What does not end waits to be aborted, as on a GPU.
  void ask(const Request& request, const void* send, void* receive) {
    Reply reply;
    bool well = write_all(socket_, &request, sizeof request);
    if (request.kind != Kind::kReceive)
      well = well && write_all(socket_, checked(send), request.bytes);
    if (request.kind == Kind::kSend && well) return;
    well = well && read_all(socket_, &reply, sizeof reply);
    if (well && reply.state == Reply::State::kWell) {
      if (reply.bytes == 0) return;
      if (read_all(socket_, checked(receive), reply.bytes)) return;
    }
    std::unique_lock lock(mutex_);
    if (well && reply.state == Reply::State::kDifferent) error_ = ncclInvalidUsage;
    if (tells && error_ == ncclSuccess) error_ = ncclRemoteError;
    changed_.wait(lock, [this] { return aborted_; });
  }

 private:
  const int rank_;
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int socket_ = -1;  // constant when it is not busy for the first time
  bool busy_ = true;
  bool aborted_ = false;
  ncclResult_t error_ = ncclSuccess;
  std::set<cudaStream_t> streams_;
};

struct Comms {
  std::mutex mutex;
  std::vector<std::weak_ptr<Comm>> made;
};
Comms& comms() {
  static auto* const all = new Comms;
  return *all;
}

// What a call wants done.
struct Call {
  std::shared_ptr<Comm> comm;
  cudaStream_t stream = nullptr;
  Request request;
  const void* send = nullptr;
  void* receive = nullptr;
};

thread_local int group_depth = 0;
thread_local std::vector<Call> grouped;
thread_local std::vector<std::shared_ptr<Comm>> aborted;
thread_local const char* last_error = "";

std::shared_ptr<Comm>& comm_of(ncclComm_t comm) {
  return *reinterpret_cast<std::shared_ptr<Comm>*>(comm);
}

// Sends come first: they wait for nobody.
void put_on_stream(std::vector<Call> calls) {
  const cudaStream_t stream = calls.front().stream;
  calls.front().comm->use(stream);
  enqueue(stream, [calls = std::move(calls)] {
    for (const bool sends : {true, false}) {
      for (const Call& call : calls) {
        if ((call.request.kind == Kind::kSend) == sends)
          call.comm->ask(call.request, call.send, call.receive);
      }
    }
  });
}

// Done a while after this has returned.
ncclResult_t begin(std::vector<Call> calls) {
  if (calls.empty()) return ncclSuccess;
  const std::shared_ptr<Comm> comm = calls.front().comm;
  if (!comm->get_busy()) {
    last_error = "the communicator is busy with what it was told before";
    return ncclInvalidUsage;
  }
  ++launches;
  std::thread([comm, calls = std::move(calls)]() mutable {
    std::this_thread::sleep_for(kBusy);
    put_on_stream(std::move(calls));
    comm->be_free();
  }).detach();
  return ncclInProgress;
}

// As NCCL does when it aborts: all that the communicators' streams have must end, whoever has put
// it there.
void wait_for_streams(const std::vector<std::shared_ptr<Comm>>& comms) {
  std::vector<std::future<void>> ends;
  for (const std::shared_ptr<Comm>& comm : comms) {
    for (cudaStream_t stream : comm->streams()) {
      auto end = std::make_shared<std::promise<void>>();
      ends.push_back(end->get_future());
      enqueue(stream, [end] { end->set_value(); });
    }
  }
  for (const std::future<void>& end : ends) end.wait();
}

ncclResult_t call(Call one) {
  if (group_depth > 0) {
    grouped.push_back(std::move(one));
    return ncclSuccess;
  }
  std::vector<Call> calls;
  calls.push_back(std::move(one));
  return begin(std::move(calls));
}

Request request(Kind kind, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int peer) {
  return {kind, type, op, peer, count * size_of_type(type)};
}

}  // namespace

void tell_of_lost_ranks(bool to_tell) {
  tells = to_tell;
}

std::size_t nccl_launches() {
  return launches;
}
void refuse_nccl_memory(bool refuse) {
  refuses_memory = refuse;
}
std::size_t nccl_allocations() {
  return allocations;
}
void hold_ends(bool holds) {
  ends_are_held = holds;
}

int largest_communicator() {
  return largest;
}
void forget_communicators() {
  largest = 0;
}

void cut_off(int rank) {
  Comms& all = comms();
  const std::lock_guard lock(all.mutex);
  for (const std::weak_ptr<Comm>& one : all.made) {
    const std::shared_ptr<Comm> comm = one.lock();
    if (comm != nullptr && comm->rank() == rank) comm->cut_off();
  }
}

}  // namespace fake_gpu

using namespace fake_gpu;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError    ? "remote process exited or there was a network error"
         : result == ncclInvalidUsage ? "invalid usage"
                                      : "an error of the fake NCCL";
}
const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return last_error;
}

ncclResult_t ncclMemAlloc(void** pointer, std::size_t size) {
  *pointer = refuses_memory ? nullptr : allocate(size);
  ++allocations;
  if (*pointer == nullptr) return ncclUnhandledCudaError;
  const std::lock_guard lock(own_memory_mutex);
  own_memory.insert(*pointer);
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* pointer) {
  {
    const std::lock_guard lock(own_memory_mutex);
    if (own_memory.erase(pointer) == 0) return ncclInvalidArgument;
  }
  release(pointer);
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string name = open_hub();
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;  // kolo never blocks
  auto made = std::make_shared<Comm>(rank, size);
  for (int before = largest; before < size && !largest.compare_exchange_weak(before, size);) {
  }
  {
    const std::lock_guard lock(comms().mutex);
    comms().made.push_back(made);
  }
  *comm = reinterpret_cast<ncclComm_t>(new std::shared_ptr<Comm>(made));
  std::thread([made, name = std::string(id.internal)] { made->connect(name); }).detach();
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm_of(comm)->state();
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t /*comm*/) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  while (ends_are_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  delete &comm_of(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::shared_ptr<Comm> one = comm_of(comm);
  one->abort();
  delete &comm_of(comm);
  aborted.push_back(one);
  if (group_depth == 0) wait_for_streams(std::exchange(aborted, {}));
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
  if (--group_depth > 0) return ncclSuccess;
  wait_for_streams(std::exchange(aborted, {}));
  return begin(std::exchange(grouped, {}));
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call(
      {comm_of(comm), stream, request(Kind::kAllreduce, count, type, op, 0), send, receive});
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return call(
      {comm_of(comm), stream, request(Kind::kReduce, count, type, op, root), send, receive});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return call({comm_of(comm), stream, request(Kind::kBroadcast, count, type, ncclSum, root), send,
               receive});
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(
      {comm_of(comm), stream, request(Kind::kAllgather, count, type, ncclSum, 0), send, receive});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  const auto all = count * static_cast<std::size_t>(comm_of(comm)->size());
  return call(
      {comm_of(comm), stream, request(Kind::kReducescatter, all, type, op, 0), send, receive});
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call(
      {comm_of(comm), stream, request(Kind::kSend, count, type, ncclSum, peer), send, nullptr});
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call({comm_of(comm), stream, request(Kind::kReceive, count, type, ncclSum, peer), nullptr,
               receive});
}

}  // extern "C"
