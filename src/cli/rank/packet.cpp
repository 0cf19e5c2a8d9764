#include "cli/rank/packet.hpp"

#include <algorithm>
#include <sstream>

#include "cli/process/environment.hpp"

namespace kolo::cli {
namespace {

constexpr std::string_view kMark = "\x1ekolo ";

bool is_kind(char c) {
  return std::string_view("oesx").find(c) != std::string_view::npos;
}
bool is_end(char c) {
  return std::string_view("nrb-f").find(c) != std::string_view::npos;
}

std::optional<Packet> parse(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.size() < space + 4) return std::nullopt;
  const std::optional<long> rank = parse_integer(std::string(text.substr(0, space)));
  const char kind = text[space + 1];
  const char end = text[space + 2];
  if (!rank || *rank < 0 || *rank > 100'000'000) return std::nullopt;
  if (!is_kind(kind) || !is_end(end) || text[space + 3] != ' ') return std::nullopt;
  return Packet{static_cast<int>(*rank), static_cast<PacketKind>(kind), static_cast<LineEnd>(end),
                std::string(text.substr(space + 4))};
}

const char* name_of(Ending how) {
  switch (how) {
    case Ending::kExit:
      return "exit";
    case Ending::kSignal:
      return "signal";
    case Ending::kNotStarted:
      break;
  }
  return "start";
}

std::string origin_of(const Started& started) {
  return started.host + " " + std::to_string(started.pid) + " " +
         std::to_string(started.microseconds);
}

}  // namespace

std::string encode(const Packet& packet) {
  std::string text(kMark);
  text += std::to_string(packet.rank);
  text += ' ';
  text += static_cast<char>(packet.kind);
  text += static_cast<char>(packet.end);
  text += ' ';
  text += packet.payload;
  text += '\n';
  return text;
}

Decoded decode(std::string_view line) {
  const std::size_t mark = line.find(kMark);
  if (mark == std::string_view::npos) return {std::string(line), std::nullopt};
  std::optional<Packet> packet = parse(line.substr(mark + kMark.size()));
  if (!packet) return {std::string(line), std::nullopt};
  return {std::string(line.substr(0, mark)), std::move(packet)};
}

std::string encode(const Started& started) {
  return origin_of(started) + " " + (started.machine.empty() ? "-" : started.machine);
}

std::string encode(const Ended& ended) {
  std::string program = ended.program.substr(0, 1024);
  std::replace(program.begin(), program.end(), '\n', ' ');
  return origin_of(ended.from) + (ended.was_told ? " 1" : " 0") +
         (ended.lost_peer ? " 1 " : " 0 ") + name_of(ended.how) + " " + std::to_string(ended.code) +
         " " + program;
}

std::optional<Started> decode_started(const std::string& payload) {
  std::istringstream text(payload);
  Started started;
  text >> started.host >> started.pid >> started.microseconds >> started.machine;
  if (!text) return std::nullopt;
  if (started.machine == "-") started.machine.clear();
  return started;
}

std::optional<Ended> decode_ended(const std::string& payload) {
  std::istringstream text(payload);
  Ended ended;
  std::string how;
  text >> ended.from.host >> ended.from.pid >> ended.from.microseconds >> ended.was_told >>
      ended.lost_peer >> how >> ended.code;
  if (!text || text.get() != ' ' || !std::getline(text, ended.program)) return std::nullopt;
  if (how == "exit") {
    ended.how = Ending::kExit;
  } else if (how == "signal") {
    ended.how = Ending::kSignal;
  } else if (how == "start") {
    ended.how = Ending::kNotStarted;
  } else {
    return std::nullopt;
  }
  return ended;
}

}  // namespace kolo::cli
