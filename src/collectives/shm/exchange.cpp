#include "collectives/shm/exchange.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

namespace kolo::shm {
namespace {

constexpr int kTimeoutMilliseconds = 30'000;

Status system_error(const char* what) {
  return Status::internal(std::string(what) + ": " + std::generic_category().message(errno));
}

// "kolo-" and 32 hexadecimal digits.
Status random_name(std::string& name) {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return system_error("getrandom");
  name = "kolo-";
  for (const unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return Status::ok();
}

// A name in Linux's abstract space: no file.
socklen_t make_address(const std::string& name, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Status open_socket(int& made) {
  made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  return made >= 0 ? Status::ok() : system_error("socket");
}

Status check_user(int peer) {
  ucred who{};
  socklen_t length = sizeof who;
  if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
    return system_error("SO_PEERCRED");
  if (who.uid == geteuid()) return Status::ok();
  return Status::internal("a process of another user is at the other end of the socket");
}

Status wait_for_input(int from) {
  pollfd waited{from, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&waited, 1, kTimeoutMilliseconds);
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return system_error("poll");
  return ready > 0 ? Status::ok() : Status::timeout("a process of this node did not answer");
}

// A message: whose file it is, and its descriptor.
struct Message {
  int rank = 0;
  iovec content{&rank, sizeof rank};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};

  Message() {
    header.msg_iov = &content;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
};

Status send_descriptor(int to, int rank, int descriptor) {
  Message message;
  message.rank = rank;
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  const ssize_t sent = sendmsg(to, &message.header, MSG_NOSIGNAL);
  return sent == sizeof message.rank ? Status::ok() : system_error("sending a descriptor");
}

Status receive_descriptor(int from, int& rank, int& descriptor) {
  if (Status s = wait_for_input(from); !s.is_ok()) return s;
  Message message;
  const ssize_t length = recvmsg(from, &message.header, MSG_CMSG_CLOEXEC);
  if (length < 0) return system_error("receiving a descriptor");
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  if (length != sizeof message.rank || control == nullptr || control->cmsg_type != SCM_RIGHTS)
    return Status::internal("a process of this node gave up");
  rank = message.rank;
  std::memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
  return Status::ok();
}

Status keep(int rank, int descriptor, std::vector<int>& all) {
  if (rank < 0 || rank >= static_cast<int>(all.size()) ||
      all[static_cast<std::size_t>(rank)] >= 0) {
    close(descriptor);
    return Status::internal("a process that is none of this job's has connected");
  }
  all[static_cast<std::size_t>(rank)] = descriptor;
  return Status::ok();
}

void close_all(std::vector<int>& descriptors) {
  for (int& descriptor : descriptors) {
    if (descriptor >= 0) close(std::exchange(descriptor, -1));
  }
}

// Whether the process at the other end is gone.
bool hung_up(int socket) {
  pollfd looked{socket, 0, 0};
  return poll(&looked, 1, 0) > 0 && (looked.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

Exchange::~Exchange() {
  close_all(peers_);
  if (socket_ >= 0) close(socket_);
}

Status Exchange::listen(std::string& address) {
  if (Status s = random_name(address); !s.is_ok()) return s;
  if (Status s = open_socket(socket_); !s.is_ok()) return s;
  sockaddr_un at{};
  const socklen_t length = make_address(address, at);
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&at), length) != 0)
    return system_error("bind");
  return ::listen(socket_, size_) == 0 ? Status::ok() : system_error("listen");
}

Status Exchange::connect(const std::string& address) {
  if (Status s = open_socket(socket_); !s.is_ok()) return s;
  sockaddr_un at{};
  const socklen_t length = make_address(address, at);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&at), length) != 0)
    return system_error("connect");
  return check_user(socket_);
}

Status Exchange::swap(int mine, std::vector<int>& all) {
  all.assign(static_cast<std::size_t>(size_), -1);
  int& own = all[static_cast<std::size_t>(rank_)];
  own = fcntl(mine, F_DUPFD_CLOEXEC, 0);
  Status status = own >= 0 ? Status::ok() : system_error("duplicating a descriptor");
  if (status.is_ok() && rank_ == 0) {
    status = accept_all(all);
    if (status.is_ok()) status = send_to_all(all);
  } else if (status.is_ok()) {
    status = send_descriptor(socket_, rank_, mine);
    for (int i = 1; status.is_ok() && i < size_; ++i) {
      int rank = 0;
      int descriptor = -1;
      status = receive_descriptor(socket_, rank, descriptor);
      if (status.is_ok()) status = keep(rank, descriptor, all);
    }
  }
  if (!status.is_ok()) close_all(all);
  return status;
}

std::optional<int> Exchange::gone() const {
  if (rank_ > 0) return hung_up(socket_) ? std::optional(0) : std::nullopt;
  for (std::size_t rank = 1; rank < peers_.size(); ++rank) {
    if (hung_up(peers_[rank])) return static_cast<int>(rank);
  }
  return std::nullopt;
}

Status Exchange::accept_all(std::vector<int>& all) {
  peers_.assign(static_cast<std::size_t>(size_), -1);
  for (int i = 1; i < size_; ++i) {
    if (Status s = wait_for_input(socket_); !s.is_ok()) return s;
    const int peer = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) return system_error("accept");
    int rank = 0;
    int descriptor = -1;
    Status status = check_user(peer);
    if (status.is_ok()) status = receive_descriptor(peer, rank, descriptor);
    if (status.is_ok()) status = keep(rank, descriptor, all);
    if (!status.is_ok()) {
      close(peer);
      return status;
    }
    peers_[static_cast<std::size_t>(rank)] = peer;
  }
  return Status::ok();
}

Status Exchange::send_to_all(const std::vector<int>& all) const {
  for (std::size_t to = 1; to < peers_.size(); ++to) {
    for (std::size_t of = 0; of < all.size(); ++of) {
      if (of == to) continue;
      Status status = send_descriptor(peers_[to], static_cast<int>(of), all[of]);
      if (!status.is_ok()) return status;
    }
  }
  return Status::ok();
}

}  // namespace kolo::shm
