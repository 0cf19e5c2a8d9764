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

// Sets `name` to "kolo-" and 32 random hexadecimal digits.
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

// Makes an address in Linux's abstract namespace, which needs no file.
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

// A message: the sender's rank, its lifeline and, if it shares memory, that descriptor.
struct Message {
  int rank = 0;
  iovec content{&rank, sizeof rank};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Handed))> control{};
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

Status send_handed(int to, int rank, const Handed& handed) {
  Message message;
  message.rank = rank;
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  const std::size_t bytes = handed.memory < 0 ? sizeof handed.lifeline : sizeof handed;
  control->cmsg_len = CMSG_LEN(bytes);
  message.header.msg_controllen = CMSG_SPACE(bytes);
  std::memcpy(CMSG_DATA(control), &handed, bytes);
  const ssize_t sent = sendmsg(to, &message.header, MSG_NOSIGNAL);
  return sent == sizeof message.rank ? Status::ok() : system_error("sending a descriptor");
}

void close_both(Handed& handed) {
  for (int* const descriptor : {&handed.lifeline, &handed.memory}) {
    if (*descriptor >= 0) close(std::exchange(*descriptor, -1));
  }
}

// Receives the descriptors of one rank, which has not handed any over before.
Status receive_handed(int from, int& rank, std::vector<Handed>& all) {
  if (Status s = wait_for_input(from); !s.is_ok()) return s;
  Message message;
  const ssize_t length = recvmsg(from, &message.header, MSG_CMSG_CLOEXEC);
  if (length < 0) return system_error("receiving a descriptor");
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  const std::size_t bytes =
      control == nullptr || control->cmsg_type != SCM_RIGHTS ? 0 : control->cmsg_len - CMSG_LEN(0);
  Handed handed;
  if (length != sizeof message.rank ||
      (bytes != sizeof handed && bytes != sizeof handed.lifeline)) {
    return Status::internal("a process of this node gave up");
  }
  std::memcpy(&handed, CMSG_DATA(control), bytes);
  rank = message.rank;
  if (rank < 0 || rank >= static_cast<int>(all.size()) ||
      all[static_cast<std::size_t>(rank)].lifeline >= 0) {
    close_both(handed);
    return Status::internal("a process that does not belong to this job has connected");
  }
  all[static_cast<std::size_t>(rank)] = handed;
  return Status::ok();
}

}  // namespace

Exchange::~Exchange() {
  for (const int peer : peers_) {
    if (peer >= 0) close(peer);
  }
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

Status Exchange::swap(const Handed& mine, std::vector<Handed>& all) {
  all.assign(static_cast<std::size_t>(size_), Handed{});
  Status status;
  if (rank_ == 0) {
    status = accept_all(all);
    if (status.is_ok()) status = send_to_all(mine, all);
  } else {
    status = send_handed(socket_, rank_, mine);
    for (int i = 1; status.is_ok() && i < size_; ++i) {
      int rank = 0;
      status = receive_handed(socket_, rank, all);
    }
  }
  if (status.is_ok()) return status;
  for (Handed& handed : all) close_both(handed);
  return status;
}

Status Exchange::accept_all(std::vector<Handed>& all) {
  peers_.assign(static_cast<std::size_t>(size_), -1);
  for (int i = 1; i < size_; ++i) {
    if (Status s = wait_for_input(socket_); !s.is_ok()) return s;
    const int peer = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) return system_error("accept");
    int rank = 0;
    Status status = check_user(peer);
    if (status.is_ok()) status = receive_handed(peer, rank, all);
    if (!status.is_ok()) {
      close(peer);
      return status;
    }
    peers_[static_cast<std::size_t>(rank)] = peer;
  }
  return Status::ok();
}

Status Exchange::send_to_all(const Handed& mine, const std::vector<Handed>& all) const {
  for (std::size_t to = 1; to < peers_.size(); ++to) {
    for (std::size_t of = 0; of < all.size(); ++of) {
      if (of == to) continue;
      Status status = send_handed(peers_[to], static_cast<int>(of), of == 0 ? mine : all[of]);
      if (!status.is_ok()) return status;
    }
  }
  return Status::ok();
}

}  // namespace kolo::shm
