#include "fake_gpu/hub.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace fake_gpu {
namespace {

using Bytes = std::vector<std::byte>;

sockaddr_un address_of(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // of no file
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

template <typename T>
float widened(T value) {
  if constexpr (std::is_same_v<T, __half>) return __half2float(value);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __bfloat162float(value);
  return 0;
}

template <typename T>
T combined(T a, T b, ncclRedOp_t op) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half(combined(widened(a), widened(b), op));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16(combined(widened(a), widened(b), op));
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (op == ncclProd)
      return static_cast<T>(
          static_cast<U>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b)));
    if (op == ncclMax) return std::max(a, b);
    if (op == ncclMin) return std::min(a, b);
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return op == ncclProd  ? a * b
           : op == ncclMax ? std::max(a, b)
           : op == ncclMin ? std::min(a, b)
                           : a + b;
  }
}

template <typename T>
Bytes reduced(const std::vector<Bytes>& all, ncclRedOp_t op) {
  Bytes result = all[0];
  T* const to = reinterpret_cast<T*>(result.data());
  const std::size_t count = result.size() / sizeof(T);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const T* const from = reinterpret_cast<const T*>(all[rank].data());
    for (std::size_t i = 0; i < count; ++i) to[i] = combined(to[i], from[i], op);
  }
  return result;
}

Bytes reduced(const std::vector<Bytes>& all, ncclDataType_t type, ncclRedOp_t op) {
  if (op == ncclAvg) throw std::runtime_error("fake NCCL: kolo averages itself");
  switch (type) {
    case ncclInt8:
      return reduced<std::int8_t>(all, op);
    case ncclUint8:
      return reduced<std::uint8_t>(all, op);
    case ncclInt32:
      return reduced<std::int32_t>(all, op);
    case ncclInt64:
      return reduced<std::int64_t>(all, op);
    case ncclFloat16:
      return reduced<__half>(all, op);
    case ncclBfloat16:
      return reduced<__nv_bfloat16>(all, op);
    case ncclFloat32:
      return reduced<float>(all, op);
    case ncclFloat64:
      return reduced<double>(all, op);
    default:
      throw std::runtime_error("fake NCCL: a type that it does not know");
  }
}

// A collective: what each rank asks for the n-th time.
struct Round {
  std::vector<Request> requests;
  std::vector<Bytes> data;
  std::size_t arrived = 0;
  std::size_t left = 0;
  bool different = false;
  std::vector<Bytes> results;  // by rank
};

bool is_same(const Request& a, const Request& b) {
  return a.kind == b.kind && a.type == b.type && a.op == b.op && a.peer == b.peer &&
         (a.bytes == b.bytes || a.kind == Kind::kBroadcast);
}

class Hub {
 public:
  explicit Hub(int listening) : listening_(listening) {}

  static void run(const std::shared_ptr<Hub>& hub) {
    std::size_t come = 0;
    do {
      const int socket = accept(hub->listening_, nullptr, nullptr);
      Hello hello;
      if (socket < 0 || !read_all(socket, &hello, sizeof hello)) return;
      hub->sockets_.resize(static_cast<std::size_t>(hello.size), -1);
      hub->sockets_[static_cast<std::size_t>(hello.rank)] = socket;
    } while (++come < hub->sockets_.size());
    close(hub->listening_);
    for (std::size_t rank = 0; rank < hub->sockets_.size(); ++rank) {
      const char go = 1;
      write_all(hub->sockets_[rank], &go, 1);
      std::thread([hub, rank] { hub->serve(rank); }).detach();
    }
  }

 private:
  void serve(std::size_t rank) {
    const int socket = sockets_[rank];
    std::uint64_t collectives = 0;
    Request request;
    while (read_all(socket, &request, sizeof request)) {
      Bytes data(request.kind == Kind::kReceive ? 0 : request.bytes);
      if (!read_all(socket, data.data(), data.size())) break;
      if (request.kind == Kind::kSend) {
        put(rank, static_cast<std::size_t>(request.peer), std::move(data));
        continue;
      }
      Reply reply;
      Bytes result;
      if (request.kind == Kind::kReceive) {
        reply.state = get(static_cast<std::size_t>(request.peer), rank, result);
      } else {
        reply.state = take_part(rank, collectives++, request, std::move(data), result);
      }
      reply.bytes = result.size();
      if (!write_all(socket, &reply, sizeof reply) ||
          !write_all(socket, result.data(), result.size()))
        break;
    }
    const std::lock_guard lock(mutex_);
    lost_ = true;
    changed_.notify_all();
  }

  void put(std::size_t from, std::size_t to, Bytes data) {
    const std::lock_guard lock(mutex_);
    messages_[{from, to}].push_back(std::move(data));
    changed_.notify_all();
  }

  Reply::State get(std::size_t from, std::size_t to, Bytes& data) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& queue = messages_[{from, to}];
    changed_.wait(lock, [&] { return lost_ || !queue.empty(); });
    if (queue.empty()) return Reply::State::kLost;
    data = std::move(queue.front());
    queue.pop_front();
    return Reply::State::kWell;
  }

  Reply::State take_part(std::size_t rank, std::uint64_t number, const Request& request, Bytes data,
                         Bytes& result) {
    std::unique_lock lock(mutex_);
    const std::size_t size = sockets_.size();
    Round& round = rounds_[number];
    if (round.requests.empty()) {
      round.requests.assign(size, request);
      round.data.resize(size);
    }
    round.different = round.different || !is_same(round.requests[0], request);
    round.data[rank] = std::move(data);
    if (++round.arrived == size) {
      if (!round.different) finish(round, request);
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return lost_ || round.arrived == size; });
    if (round.arrived < size) return Reply::State::kLost;
    const bool different = round.different;
    if (!different) result = std::move(round.results[rank]);
    if (++round.left == size) rounds_.erase(number);
    return different ? Reply::State::kDifferent : Reply::State::kWell;
  }

  static void finish(Round& round, const Request& request) {
    const std::size_t size = round.data.size();
    const auto root = static_cast<std::size_t>(request.peer);
    round.results.resize(size);
    switch (request.kind) {
      case Kind::kAllreduce:
        round.results.assign(size, reduced(round.data, request.type, request.op));
        break;
      case Kind::kReduce:
        round.results[root] = reduced(round.data, request.type, request.op);
        break;
      case Kind::kBroadcast:
        round.results.assign(size, round.data[root]);
        break;
      case Kind::kAllgather: {
        Bytes all;
        for (const Bytes& one : round.data) all.insert(all.end(), one.begin(), one.end());
        round.results.assign(size, all);
        break;
      }
      case Kind::kReducescatter: {
        const Bytes all = reduced(round.data, request.type, request.op);
        const auto share = static_cast<std::ptrdiff_t>(all.size() / size);
        for (std::size_t rank = 0; rank < size; ++rank) {
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank) * share;
          round.results[rank].assign(begin, begin + share);
        }
        break;
      }
      case Kind::kSend:
      case Kind::kReceive:
        break;
    }
  }

  const int listening_;
  std::vector<int> sockets_;  // constant when all are there
  std::mutex mutex_;
  std::condition_variable changed_;
  bool lost_ = false;  // a rank has gone
  std::map<std::uint64_t, Round> rounds_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Bytes>> messages_;
};

}  // namespace

std::string open_hub() {
  static std::atomic<int> count{0};
  const std::string name =
      "kolo-fake-nccl-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = 0;
  const sockaddr_un address = address_of(name, length);
  if (listening < 0 || bind(listening, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listening, 64) != 0)
    throw std::runtime_error("fake NCCL: no socket");
  std::thread([hub = std::make_shared<Hub>(listening)] { Hub::run(hub); }).detach();
  return name;
}

int connect_to_hub(const std::string& name) {
  const int one = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = 0;
  const sockaddr_un address = address_of(name, length);
  if (one >= 0 && connect(one, reinterpret_cast<const sockaddr*>(&address), length) == 0)
    return one;
  if (one >= 0) close(one);
  return -1;
}

bool read_all(int socket, void* data, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int socket, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

std::size_t size_of_type(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

}  // namespace fake_gpu
