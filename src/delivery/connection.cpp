#include "delivery/connection.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

namespace kolo::delivery {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

[[noreturn]] void fail(const std::string& what, int error) {
  const std::string text = what + ": " + reason(error);
  if (error == ECONNREFUSED) throw ConnectionRefused(text);
  throw ConnectionLost(text);
}

// Makes the socket detect a vanished host, which closes no connection, and send small messages at
// once.
void set_up_tcp(int socket) {
  const int on = 1;
  const int idle_seconds = 15;
  const int probes = 4;
  const int unacknowledged_milliseconds = 60'000;
  const auto set = [&](int level, int option, int value) {
    if (::setsockopt(socket, level, option, &value, sizeof value) != 0) fail("setsockopt", errno);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, on);
  set(IPPROTO_TCP, TCP_KEEPIDLE, idle_seconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, idle_seconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, probes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, unacknowledged_milliseconds);
  set(IPPROTO_TCP, TCP_NODELAY, on);
}

void set_limit(int socket, int option, double seconds) {
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(seconds);
  if (::setsockopt(socket, SOL_SOCKET, option, &limit, sizeof limit) != 0)
    fail("setsockopt", errno);
}

// Returns 0, or the error with which connecting failed.
int finish_connecting(int socket, Clock::time_point deadline) {
  for (;;) {
    const double left = to_seconds(deadline - Clock::now());
    if (left <= 0) return ETIMEDOUT;
    pollfd waiting{socket, POLLOUT, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min(left, 3600.0) * 1000) + 1);
    if (ready < 0 && errno != EINTR) return errno;
    if (ready <= 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    return error;
  }
}

Fd connected(int family, const sockaddr* address, socklen_t size, Clock::time_point deadline,
             const std::string& what) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) fail("socket", errno);
  int error = 0;
  if (::connect(socket.get(), address, size) != 0) {
    error = errno;
    if (error == EINPROGRESS || error == EINTR) error = finish_connecting(socket.get(), deadline);
  }
  if (error != 0) fail("connecting to " + what, error);
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) fail("fcntl", errno);
  return socket;
}

Fd connect_local(const std::string& name, Clock::time_point deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) fail("the name '" + name + "'", ENAMETOOLONG);
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // an abstract name begins with 0
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), size, deadline,
                   "the Unix socket '" + name + "'");
}

Fd connect_over_network(const Address& to, Clock::time_point deadline) {
  const std::string what = to.host + ":" + std::to_string(to.port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found);
  if (code != 0) throw ConnectionLost("looking up " + what + ": " + ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  for (const addrinfo* one = found;; one = one->ai_next) {
    try {
      Fd socket = connected(one->ai_family, one->ai_addr, one->ai_addrlen, deadline, what);
      set_up_tcp(socket.get());
      return socket;
    } catch (const ConnectionLost&) {
      if (one->ai_next == nullptr) throw;
    }
  }
}

union DescriptorSpace {
  cmsghdr head;  // for alignment
  char bytes[CMSG_SPACE(sizeof(int))];
};

void attach(int descriptor, DescriptorSpace& space, msghdr& message) {
  message.msg_control = space.bytes;
  message.msg_controllen = sizeof space.bytes;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
}

void detach(msghdr& message, Fd* to) {
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    *to = Fd(descriptor);
  }
}

// Removes the first `sent` bytes from the parts.
void drop_front(std::vector<iovec>& parts, std::size_t& first, std::size_t sent) {
  while (first < parts.size() && sent >= parts[first].iov_len) sent -= parts[first++].iov_len;
  if (sent == 0) return;
  parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + sent;
  parts[first].iov_len -= sent;
}

}  // namespace

std::string to_text(const Address& address) {
  return address.host + ":" + std::to_string(address.port) + "," + address.machine + "," +
         address.name;
}

std::optional<Address> to_address(const std::string& text) {
  const std::size_t first = text.find(',');
  const std::size_t second = first == std::string::npos ? first : text.find(',', first + 1);
  if (second == std::string::npos) return std::nullopt;
  const std::size_t colon = text.rfind(':', first);
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  Address address{text.substr(0, colon), 0, text.substr(first + 1, second - first - 1),
                  text.substr(second + 1)};
  const char* const end = text.data() + first;
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (error != std::errc() || stop != end || address.port < 1 || address.port > 65535)
    return std::nullopt;
  return address;
}

Connection Connection::connect(const Address& address, const std::string& machine,
                               Clock::time_point deadline) {
  if (!machine.empty() && machine == address.machine)
    return Connection(connect_local(address.name, deadline));
  return Connection(connect_over_network(address, deadline));
}

Connection Connection::accepted(Fd socket) {
  Connection connection(std::move(socket));
  if (!connection.is_local()) set_up_tcp(connection.socket_.get());
  return connection;
}

void Connection::limit_sending(double seconds) const {
  set_limit(socket_.get(), SO_SNDTIMEO, seconds);
}

bool Connection::is_local() const {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(socket_.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
         domain == AF_UNIX;
}

void Connection::send(FrameKind kind, std::uint64_t id, const Bytes& body,
                      const std::vector<std::span<const std::byte>>& payload,
                      int descriptor) const {
  FrameHead head{kind, static_cast<std::uint32_t>(body.size()), id, 0};
  for (const auto& part : payload) head.payload += part.size();
  const Bytes encoded = encode(head);
  std::vector<iovec> parts;
  const auto add = [&](std::span<const std::byte> bytes) {
    if (!bytes.empty()) parts.push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});
  };
  add(encoded);
  add(body);
  for (const auto& part : payload) add(part);
  DescriptorSpace space{};
  for (std::size_t first = 0; first < parts.size();) {
    msghdr message{};
    message.msg_iov = &parts[first];
    message.msg_iovlen = std::min<std::size_t>(parts.size() - first, 64);
    if (descriptor >= 0) attach(descriptor, space, message);
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      fail("sending", errno);
    }
    descriptor = -1;
    drop_front(parts, first, static_cast<std::size_t>(sent));
  }
}

void Connection::receive_all(std::span<std::byte> to, Fd* descriptor) const {
  while (!to.empty()) {
    iovec part{to.data(), to.size()};
    DescriptorSpace space{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor != nullptr) {
      message.msg_control = space.bytes;
      message.msg_controllen = sizeof space.bytes;
    }
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail("receiving", errno);
    }
    if (got == 0) throw ConnectionLost("the connection was closed");
    if (descriptor != nullptr) detach(message, descriptor);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

Frame Connection::receive(std::uint32_t most_body) const {
  Frame frame;
  std::array<std::byte, kHeadBytes> head{};
  receive_all(head, &frame.descriptor);
  const std::optional<FrameHead> decoded = decode_head(head);
  if (!decoded || decoded->body > most_body) throw ConnectionLost("malformed frame");
  frame.head = *decoded;
  frame.body.resize(frame.head.body);
  receive_all(frame.body, nullptr);
  return frame;
}

void Connection::receive_payload(std::span<std::byte> to) const {
  receive_all(to, nullptr);
}

void Connection::limit_receiving(double seconds) const {
  set_limit(socket_.get(), SO_RCVTIMEO, seconds);
}

void Connection::close_both() const noexcept {
  (void)::shutdown(socket_.get(), SHUT_RDWR);  // fails if the peer has closed it
}

}  // namespace kolo::delivery
