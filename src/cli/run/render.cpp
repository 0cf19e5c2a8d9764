#include "cli/run/render.hpp"

#include <array>
#include <chrono>
#include <ctime>

namespace kolo::cli {
namespace {

// A longer line is broken, so that it cannot fill the memory of the machine that shows it.
constexpr std::size_t kLongestLine = std::size_t{64} << 20;

}  // namespace

std::string Renderer::line(int rank, bool is_error, const std::string& text, LineEnd end) const {
  if (end == LineEnd::kBareNewline) return "\n";
  // This erases a line, so it gets no prefix, which would be text again.
  if (end == LineEnd::kReturn && text == "\033[K") return text + "\r";
  std::string all;
  if (options_.tag) all += options_.tag(rank, is_error);
  if (options_.timestamp) all += options_.timestamp();
  all += text;
  if (end == LineEnd::kReturn) {
    all += '\r';
  } else if (end != LineEnd::kEndOfStream || options_.tag) {
    all += '\n';
  }
  return all;
}

Rendered Renderer::add(const Packet& packet) {
  const bool is_error = packet.kind == PacketKind::kError;
  const auto place = unfinished_.try_emplace({packet.rank, packet.kind}).first;
  place->second += packet.payload;
  if (packet.end == LineEnd::kContinues && place->second.size() < kLongestLine)
    return {is_error, {}, packet.rank};
  const std::string text = std::move(place->second);
  unfinished_.erase(place);
  return {is_error, line(packet.rank, is_error, text, packet.end), packet.rank};
}

std::vector<Rendered> Renderer::finish() {
  std::vector<Rendered> all;
  for (const auto& [whose, text] : unfinished_) {
    const bool is_error = whose.second == PacketKind::kError;
    all.push_back(
        {is_error, line(whose.first, is_error, text, LineEnd::kEndOfStream), whose.first});
  }
  unfinished_.clear();
  return all;
}

std::string current_timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t whole = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local{};
  localtime_r(&whole, &local);
  std::array<char, 40> text{};
  const std::size_t used = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  std::string padded = std::to_string(millis);
  padded.insert(0, 3 - padded.size(), '0');
  return std::string(text.data(), used) + "." + padded + " ";
}

}  // namespace kolo::cli
