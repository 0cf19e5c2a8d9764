// Packets that kolo-rank sends to kolo run, through its standard error and the launcher's
// forwarding.
//
//   packet  = %x1E "kolo" SP rank SP kind end SP payload LF       at most 4096 bytes
//   kind    = "o" | "e"            a piece of the program's standard output, standard error
//           | "s"                  the program was started
//           | "x"                  the program ended
//   end     = "n" | "r" | "b" | "-" | "f"        as LineEnd; "n" for "s" and "x"
//   started = host SP pid SP microseconds SP machine           payload of "s"
//   machine = "-", or an ID that differs between hosts even if their names are equal; no blanks
//   ended   = host SP pid SP microseconds SP told SP lost SP how SP code SP program      of "x"
//   told    = "0" | "1"            whether the rank had been asked to end before
//   lost    = "0" | "1"            whether the program had noticed that another rank is gone
//   how     = "exit" | "signal" | "start"        code: exit code, signal number, errno of exec
//
// Program and host hold no newline. The payload of "o" and "e" is any bytes but LF. Lines without
// the mark are the launcher's own. A packet of at most PIPE_BUF bytes is written by one write() to
// a pipe in packet mode, so that launchers, which read 4096 bytes or more at once, pass it on
// whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/process/line_splitter.hpp"

namespace kolo::cli {

inline constexpr std::size_t kPacketBytes = 4096;
// Room for the payload beside a packet's head.
inline constexpr std::size_t kPayloadBytes = kPacketBytes - 32;

enum class PacketKind : char { kOutput = 'o', kError = 'e', kStarted = 's', kEnded = 'x' };

struct Packet {
  int rank = 0;
  PacketKind kind = PacketKind::kOutput;
  LineEnd end = LineEnd::kNewline;
  std::string payload;
};

// Returns the packet with its closing newline.
std::string encode(const Packet& packet);

// One line of the launcher's standard error: text of the launcher before the mark, if any, then a
// packet, if any.
struct Decoded {
  std::string before;
  std::optional<Packet> packet;
};
// `line` comes without its newline.
Decoded decode(std::string_view line);

struct Started {
  std::string host;
  long pid = 0;
  std::int64_t microseconds = 0;  // since 1970, by the clock of the rank's host
  std::string machine;            // as machine_id(); only of a rank that was started
};

enum class Ending : std::uint8_t { kExit, kSignal, kNotStarted };

struct Ended {
  Started from;            // host and pid; the time is that of the end
  bool was_told = false;   // ended after it was asked to: not to blame
  bool lost_peer = false;  // ended because it had lost another rank, which it knew
  Ending how = Ending::kExit;
  int code = 0;  // exit code, signal number, or errno of the exec that failed
  std::string program;
};

std::string encode(const Started& started);
std::string encode(const Ended& ended);
// Return nothing if the payload does not follow the grammar.
std::optional<Started> decode_started(const std::string& payload);
std::optional<Ended> decode_ended(const std::string& payload);

}  // namespace kolo::cli
