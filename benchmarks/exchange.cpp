#include "benchmarks/exchange.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace kolo::bench {
namespace {

// Elements before the part of that number.
std::size_t before(const std::vector<int>& parts, int number) {
  return static_cast<std::size_t>(std::accumulate(parts.begin(), parts.begin() + number, 0LL));
}

// The same part of every rank's input, in the order of the ranks.
std::vector<Piece> from_all(int ranks, std::size_t offset, std::size_t count) {
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<std::size_t>(ranks));
  for (int source = 0; source < ranks; ++source) pieces.push_back({source, offset, count});
  return pieces;
}

std::optional<Difference> difference_of(const Pattern& pattern, const Piece& piece, bool in_place,
                                        const float* values) {
  if (piece.source != kSumOfAll)
    return pattern.first_difference_from(piece.source, values, piece.count, piece.offset);
  return in_place ? pattern.first_difference(values, piece.count, piece.offset)
                  : pattern.first_difference_elsewhere(values, piece.count, piece.offset);
}

}  // namespace

bool Exchange::in_place() const {
  return operation == Operation::kAllreduce || operation == Operation::kGroupedAllreduce ||
         operation == Operation::kBroadcast || operation == Operation::kBarrier;
}

std::size_t Exchange::result_elements() const {
  std::size_t count = 0;
  for (const Piece& piece : result) count += piece.count;
  return count;
}

void Exchange::refresh(const Pattern& pattern, float* input, float* output) const {
  pattern.fill(input, elements);
  std::fill_n(output, output_elements(), std::numeric_limits<float>::quiet_NaN());
}

std::string Exchange::check(const Pattern& pattern, const float* values) const {
  std::size_t at = 0;
  for (const Piece& piece : result) {
    auto difference = difference_of(pattern, piece, in_place(), values + at);
    if (difference) {
      difference->index += at;
      return describe(*difference, "the result of " + name_of(operation), rank);
    }
    at += piece.count;
  }
  return "";
}

std::vector<int> shares(std::size_t elements, int parts) {
  const auto number = static_cast<std::size_t>(parts);
  std::vector<int> counts(number, static_cast<int>(elements / number));
  for (std::size_t i = 0; i < elements % number; ++i) ++counts[i];
  return counts;
}

Exchange exchange_of(Operation operation, std::size_t elements, int rank, int ranks) {
  Exchange exchange = {operation, rank, ranks, elements, {}, {}, {{kSumOfAll, 0, elements}}};
  const auto mine = static_cast<std::size_t>(rank);
  switch (operation) {
    case Operation::kAllreduce:
      break;
    case Operation::kGroupedAllreduce:
      exchange.give = shares(elements, std::min(kGroupedTensors, static_cast<int>(elements)));
      break;
    case Operation::kReduce:  // to rank 0
      if (rank != 0) exchange.result.clear();
      break;
    case Operation::kBroadcast:
      exchange.result = {{0, 0, elements}};
      break;
    case Operation::kAllgather:
      exchange.result = from_all(ranks, 0, elements);
      break;
    case Operation::kAlltoall: {
      exchange.give = shares(elements, ranks);
      exchange.take.assign(static_cast<std::size_t>(ranks), exchange.give[mine]);
      exchange.result = from_all(ranks, before(exchange.give, rank),
                                 static_cast<std::size_t>(exchange.give[mine]));
      break;
    }
    case Operation::kReducescatter:
      exchange.give = shares(elements, ranks);
      exchange.result = {
          {kSumOfAll, before(exchange.give, rank), static_cast<std::size_t>(exchange.give[mine])}};
      break;
    case Operation::kSendrecv:
      exchange.result = {{exchange.previous(), 0, elements}};
      break;
    case Operation::kBarrier:
      exchange.result.clear();
      break;
  }
  return exchange;
}

}  // namespace kolo::bench
