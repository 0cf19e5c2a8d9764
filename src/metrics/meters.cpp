#include "metrics/meters.hpp"

#include <algorithm>
#include <bit>

namespace kolo {
namespace {

// Calls `visit` with each number of the measures, in the order of transmission.
template <typename Any, typename Visit>
void for_each_number(Any& measures, const Visit& visit) {
  for (auto& one : measures.operations) visit(one);
  for (auto& one : measures.bytes) visit(one);
  visit(measures.failed);
  visit(measures.collectives);
  visit(measures.buckets);
  visit(measures.known);
  visit(measures.announced);
  visit(measures.stalls);
  visit(measures.step);
  for (auto* times :
       {&measures.negotiation, &measures.collective, &measures.wait, &measures.data_wait}) {
    for (auto& one : times->counts) visit(one);
    visit(times->sum);
  }
}

}  // namespace

double TimeCounts::bound(std::size_t number) {
  return 1e-6 * static_cast<double>(std::uint64_t{1} << (2 * number));
}

std::size_t TimeCounts::place_of(Nanoseconds time) {
  if (time <= 1000) return 0;
  const auto microseconds = static_cast<std::uint64_t>(time - 1) / 1000;
  return std::min((static_cast<std::size_t>(std::bit_width(microseconds)) + 1) / 2, kBounds);
}

std::vector<std::uint64_t> to_numbers(const Measures& measures) {
  std::vector<std::uint64_t> numbers;
  for_each_number(measures, [&](std::uint64_t number) { numbers.push_back(number); });
  return numbers;
}

bool from_numbers(const std::vector<std::uint64_t>& numbers, Measures& measures) {
  std::size_t wanted = 0;
  for_each_number(measures, [&](std::uint64_t) { ++wanted; });
  if (numbers.size() != wanted) return false;
  auto next = numbers.begin();
  for_each_number(measures, [&](std::uint64_t& number) { number = *next++; });
  return true;
}

TimeCounts Meters::Times::copy() const {
  TimeCounts times;
  for (std::size_t i = 0; i < times.counts.size(); ++i)
    times.counts[i] = counts[i].load(std::memory_order_relaxed);
  times.sum = sum.load(std::memory_order_relaxed);
  return times;
}

Measures Meters::copy() const {
  Measures now;
  for (std::size_t kind = 0; kind < now.operations.size(); ++kind) {
    now.operations[kind] = operations_[kind].load(std::memory_order_relaxed);
    now.bytes[kind] = bytes_[kind].load(std::memory_order_relaxed);
  }
  now.failed = failed_.load(std::memory_order_relaxed);
  now.collectives = collectives_.load(std::memory_order_relaxed);
  now.buckets = buckets_.load(std::memory_order_relaxed);
  now.known = known_.load(std::memory_order_relaxed);
  now.announced = announced_.load(std::memory_order_relaxed);
  now.stalls = stalls_.load(std::memory_order_relaxed);
  now.negotiation = negotiation_.copy();
  now.collective = collective_.copy();
  now.wait = wait_.copy();
  now.data_wait = data_wait_.copy();
  return now;
}

}  // namespace kolo
