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

// Thrown if the peer has closed the connection or sent a malformed frame; what() tells which.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown if the host refused the connection because nobody listens there.
class ConnectionRefused : public ConnectionLost {
 public:
  using ConnectionLost::ConnectionLost;
};

// The address at which a loader listens. Text form: "host:port,machine,name".
struct Address {
  std::string host;
  int port = 0;
  std::string machine;  // equal for processes that can use the Unix socket
  std::string name;     // of the abstract Unix socket
  bool operator==(const Address&) const = default;
};
std::string to_text(const Address& address);
// Returns std::nullopt if the text is not an address.
std::optional<Address> to_address(const std::string& text);

struct Frame {
  FrameHead head;
  Bytes body;
  Fd descriptor;  // sent with the frame; otherwise not open
};

// One thread may send while another one receives. Any thread may call close_both(). Every function
// throws ConnectionLost.
class Connection {
 public:
  explicit Connection(Fd socket) : socket_(std::move(socket)) {}

  // Connects to the Unix socket if `machine` equals the address's; otherwise over TCP. Waits no
  // longer than the deadline.
  static Connection connect(const Address& address, const std::string& machine,
                            Clock::time_point deadline);

  // Makes a connection from a socket that accept() returned.
  static Connection accepted(Fd socket);

  // Whether the peer uses a Unix socket on this machine, over which descriptors can be sent.
  bool is_local() const;

  // Sends head, body and payload. A descriptor needs a local connection; -1 sends none.
  void send(FrameKind kind, std::uint64_t id, const Bytes& body,
            const std::vector<std::span<const std::byte>>& payload = {}, int descriptor = -1) const;

  // Waits for the next frame, and receives its head and body. The caller then receives the payload.
  // Rejects a body of more than `most_body` bytes.
  Frame receive(std::uint32_t most_body = kMostBodyBytes) const;
  void receive_payload(std::span<std::byte> to) const;
  // Limits how long later calls wait for bytes, or for the peer to accept bytes; then they fail. In
  // seconds; 0: no limit.
  void limit_receiving(double seconds) const;
  void limit_sending(double seconds) const;

  // Ends all waits on both sides. The socket stays open until the destructor.
  void close_both() const noexcept;

 private:
  void receive_all(std::span<std::byte> to, Fd* descriptor) const;

  Fd socket_;
};

}  // namespace kolo::delivery
