// A stream of frames between a training rank and a loader, over TCP or a Unix socket.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/fd.hpp"
#include "delivery/message.hpp"

namespace kolo::delivery {

// The peer has closed the connection, or sends what is no frame. what() says which.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The peer's end refused the connection: nobody listens there.
class ConnectionRefused : public ConnectionLost {
 public:
  using ConnectionLost::ConnectionLost;
};

// Where a loader listens. Text form: "host:port,machine,name".
struct Address {
  std::string host;
  int port = 0;
  std::string machine;  // processes with the same one reach the Unix socket
  std::string name;     // of the abstract Unix socket
  bool operator==(const Address&) const = default;
};
std::string to_text(const Address& address);
// std::nullopt: the text is no address.
std::optional<Address> to_address(const std::string& text);

struct Frame {
  FrameHead head;
  Bytes body;
  Fd descriptor;  // that came with it; not open: none
};

// One thread sends while another one receives. close_both() may come from any thread. Every
// function throws ConnectionLost.
class Connection {
 public:
  explicit Connection(Fd socket) : socket_(std::move(socket)) {}

  // Connects to the Unix socket if `machine` is the address's, otherwise over TCP. Waits until the
  // deadline at most.
  static Connection connect(const Address& address, const std::string& machine,
                            Clock::time_point deadline);

  // Makes a connection of a socket that accept() returned.
  static Connection accepted(Fd socket);

  // Whether the peer is on this machine, so that file descriptors can be sent.
  bool is_local() const;

  // Sends head, body and payload; a descriptor needs a local connection, -1 sends none.
  void send(FrameKind kind, std::uint64_t id, const Bytes& body,
            const std::vector<std::span<const std::byte>>& payload = {}, int descriptor = -1) const;

  // Waits for the next frame. Its payload is still to be received. A body of more than
  // `most_body` bytes is refused.
  Frame receive(std::uint32_t most_body = kMostBodyBytes) const;
  void receive_payload(std::span<std::byte> to) const;
  // From now on a wait for bytes, or for the peer to take some, fails if it takes longer than these
  // seconds. 0: it does not.
  void limit_receiving(double seconds) const;
  void limit_sending(double seconds) const;

  // Ends every wait of both peers. The socket stays open until the destructor.
  void close_both() const noexcept;

 private:
  void receive_all(std::span<std::byte> to, Fd* descriptor) const;

  Fd socket_;
};

}  // namespace kolo::delivery
