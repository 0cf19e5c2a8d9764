#include "timeline/clock_fit.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace kolo::timeline {
namespace {

// The clocks of two computers drift apart by less than 1 / kDriftDivisor: 100 parts per million.
constexpr Nanoseconds kDriftDivisor = 10000;

// Over a shorter time, a difference comes from the readings' errors, not from drift.
constexpr Nanoseconds kShort = 5'000'000'000;

bool tells_more(const ClockEvent& better, const ClockEvent& reading) {
  return better.error + std::abs(better.at - reading.at) / kDriftDivisor < reading.error;
}

double line(const ClockEvent& a, const ClockEvent& b) {
  return static_cast<double>(b.offset - a.offset) / static_cast<double>(b.at - a.at);
}

}  // namespace

ClockFit::ClockFit(std::vector<ClockEvent> readings) {
  std::sort(readings.begin(), readings.end(),
            [](const ClockEvent& a, const ClockEvent& b) { return a.at < b.at; });
  for (auto one = readings.begin(); one != readings.end(); ++one) {
    const ClockEvent& reading = *one;
    // A reading that is further away cannot be better.
    const auto far = [&](const ClockEvent& other) {
      return std::abs(other.at - reading.at) / kDriftDivisor >= reading.error;
    };
    const auto better = [&](const ClockEvent& other) { return tells_more(other, reading); };
    const auto end = std::find_if(one, readings.end(), far);
    const auto before = std::make_reverse_iterator(one);
    const auto begin = std::find_if(before, readings.rend(), far);
    const bool known_better = std::any_of(one, end, better) || std::any_of(before, begin, better);
    const bool twice = !readings_.empty() && readings_.back().at == reading.at;
    if (!known_better && !twice) readings_.push_back(reading);
  }
  if (!readings_.empty() && readings_.back().at - readings_.front().at >= kShort)
    slope_ = line(readings_.front(), readings_.back());
}

double ClockFit::offset(Nanoseconds at) const {
  if (readings_.empty()) return 0;
  const auto after = std::upper_bound(
      readings_.begin(), readings_.end(), at,
      [](Nanoseconds time, const ClockEvent& reading) { return time < reading.at; });
  const bool inside = after != readings_.begin() && after != readings_.end();
  const ClockEvent& base = after == readings_.begin() ? *after : *std::prev(after);
  const double slope = inside ? line(base, *after) : slope_;
  return static_cast<double>(base.offset) + slope * static_cast<double>(at - base.at);
}

Nanoseconds ClockFit::error() const {
  Nanoseconds most = 0;
  for (const ClockEvent& reading : readings_) most = std::max(most, reading.error);
  return most;
}

}  // namespace kolo::timeline
