#include "delivery/node_memory.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

#include "core/listen.hpp"
#include "delivery/connection.hpp"
#include "delivery/places.hpp"
#include "kolo/error.h"

namespace kolo::delivery {
namespace {

// Returns a socket name that no other process uses.
std::string unused_name() {
  std::random_device random;
  return "kolo-samples-" + std::to_string(::getpid()) + "-" + std::to_string(random());
}

bool is_of_own_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid();
}

// Returns a closed descriptor once the deadline has passed.
Fd accept_until(int listener, Clock::time_point deadline) {
  for (;;) {
    const double left = to_seconds(deadline - Clock::now());
    if (left <= 0) return Fd();
    pollfd waiting{listener, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min(left, 3600.0) * 1000) + 1) <= 0) continue;
    Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.is_open()) return socket;
  }
}

}  // namespace

NodeMemory::NodeMemory(const BatchPlaces& places)
    : places_(places), memory_(std::make_shared<shm::Segment>()), name_(unused_name()) {
  places_.slot = 1;  // in shared memory
  const auto size = static_cast<std::size_t>(std::max<std::uint64_t>(places.size, 1));
  const Status made = shm::Segment::create("kolo-samples", size, *memory_);
  if (!made.is_ok()) throw DataError(made.message());
  listener_ = listen_on_host(name_);
}

Parcel NodeMemory::arrays() const {
  return parcel_in(memory_->bytes(), places_, memory_);
}

void NodeMemory::hand_out(int processes, Clock::time_point deadline) const {
  while (processes > 0) {
    Fd socket = accept_until(listener_.get(), deadline);
    if (!socket.is_open()) {
      throw DataError(std::to_string(processes) +
                      " ranks of this node did not fetch the shared samples in time");
    }
    if (!is_of_own_user(socket.get())) continue;
    try {
      Connection(std::move(socket))
          .send(FrameKind::kBatch, 0, encode(places_), {}, memory_->descriptor());
    } catch (const ConnectionLost& lost) {
      throw DataError(std::string("handing the shared samples to a rank: ") + lost.what());
    }
    --processes;
  }
}

Parcel get_node_memory(const std::string& name, Clock::time_point deadline) {
  try {
    Address address;
    address.machine = "this";
    address.name = name;
    const Connection connection = Connection::connect(address, address.machine, deadline);
    connection.limit_receiving(std::max(1.0, to_seconds(deadline - Clock::now())));
    Frame frame = connection.receive();
    const std::optional<BatchPlaces> places = decode<BatchPlaces>(frame.body);
    auto memory = std::make_shared<shm::Segment>();
    if (frame.head.kind != FrameKind::kBatch || !places || !frame.descriptor.is_open())
      throw ConnectionLost("the peer sent no samples");
    const Status adopted = shm::Segment::adopt(frame.descriptor.release(), *memory);
    if (!adopted.is_ok()) throw ConnectionLost(adopted.message());
    if (places->size > memory->size()) throw ConnectionLost("the peer sent too little memory");
    return parcel_in(memory->bytes(), *places, memory);
  } catch (const ConnectionLost& lost) {
    throw DataError(std::string("fetching the shared samples: ") + lost.what());
  }
}

}  // namespace kolo::delivery
