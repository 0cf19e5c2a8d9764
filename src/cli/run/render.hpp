// Formats the ranks' output for the user: whole lines, each with its rank in front.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/rank/packet.hpp"

namespace kolo::cli {

struct Rendered {
  bool is_error = false;  // for standard error
  std::string text;
  int rank = 0;
};

struct RenderOptions {
  // Text in front of each line, such as "[3] "; empty functions: none.
  std::function<std::string(int rank, bool is_error)> tag;
  std::function<std::string()> timestamp;
};

// Used by one thread.
class Renderer {
 public:
  explicit Renderer(RenderOptions options) : options_(std::move(options)) {}

  // Takes an output or error packet. The text is empty until a long line is complete.
  Rendered add(const Packet& packet);
  // Returns the lines that were never completed because their rank was killed.
  std::vector<Rendered> finish();

 private:
  std::string line(int rank, bool is_error, const std::string& text, LineEnd end) const;

  const RenderOptions options_;
  std::map<std::pair<int, PacketKind>, std::string> unfinished_;
};

// Returns the local time, "2025-01-31 12:00:00.123 ".
std::string current_timestamp();

}  // namespace kolo::cli
