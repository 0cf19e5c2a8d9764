#include "benchmarks/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace kolo::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<float>;

TEST(BenchOperations, HaveNames) {
  const std::vector<Operation> all = all_operations();
  EXPECT_EQ(all.size(), 9U);
  for (const Operation operation : all) EXPECT_EQ(operation_of(name_of(operation)), operation);
  EXPECT_EQ(name_of(Operation::kGroupedAllreduce), "grouped_allreduce");
  EXPECT_FALSE(operation_of("nothing"));
  EXPECT_FALSE(operation_of(""));
}

TEST(BenchShares, TheFirstGetTheRest) {
  EXPECT_THAT(shares(8, 2), ElementsAre(4, 4));
  EXPECT_THAT(shares(11, 4), ElementsAre(3, 3, 3, 2));
  EXPECT_THAT(shares(1, 3), ElementsAre(1, 0, 0));
}

TEST(BenchExchange, AGroupHasSixteenTensorsOrAsManyAsElements) {
  EXPECT_EQ(exchange_of(Operation::kGroupedAllreduce, 100, 0, 2).give.size(), 16U);
  EXPECT_THAT(exchange_of(Operation::kGroupedAllreduce, 3, 0, 2).give, ElementsAre(1, 1, 1));
}

// All ranks of a job, with what the operation gives them by its definition.
class Job {
 public:
  Job(Operation operation, std::size_t elements, int ranks) : sum_(elements) {
    for (int rank = 0; rank < ranks; ++rank) {
      exchanges_.push_back(exchange_of(operation, elements, rank, ranks));
      inputs_.emplace_back(elements);
      Values output(exchanges_.back().output_elements());
      exchanges_.back().refresh(Pattern(rank, ranks, 5), inputs_.back().data(), output.data());
      EXPECT_TRUE(std::all_of(output.begin(), output.end(), [](float v) { return std::isnan(v); }));
      std::transform(sum_.begin(), sum_.end(), inputs_.back().begin(), sum_.begin(), std::plus<>());
    }
  }

  const Exchange& exchange(int rank) const { return exchanges_.at(static_cast<std::size_t>(rank)); }
  int ranks() const { return static_cast<int>(exchanges_.size()); }

  Values result(int rank) const {
    const auto mine = static_cast<std::size_t>(rank);
    switch (exchange(0).operation) {
      case Operation::kAllreduce:
      case Operation::kGroupedAllreduce:
        return sum_;
      case Operation::kReduce:
        return mine == 0 ? sum_ : Values();
      case Operation::kBroadcast:
        return inputs_[0];
      case Operation::kAllgather:
        return joined([](int) { return std::pair(0, 1 << 30); });
      case Operation::kAlltoall:
        return joined([&](int source) { return part(exchange(source).give, mine); });
      case Operation::kReducescatter: {
        const auto [from, to] = part(exchange(rank).give, mine);
        return {sum_.begin() + from, sum_.begin() + to};
      }
      case Operation::kSendrecv:
        return inputs_[mine == 0 ? inputs_.size() - 1 : mine - 1];
      case Operation::kBarrier:
        break;
    }
    return {};
  }

 private:
  // Begin and end of one of the parts.
  static std::pair<int, int> part(const std::vector<int>& counts, std::size_t number) {
    const auto at = counts.begin() + static_cast<std::ptrdiff_t>(number);
    const int from = std::accumulate(counts.begin(), at, 0);
    return {from, from + *at};
  }

  // range(source) of each rank's input.
  template <typename Range>
  Values joined(Range&& range) const {
    Values all;
    for (int source = 0; source < ranks(); ++source) {
      const Values& input = inputs_[static_cast<std::size_t>(source)];
      const auto [from, to] = range(source);
      all.insert(all.end(), input.begin() + from,
                 input.begin() + std::min(to, static_cast<int>(input.size())));
    }
    return all;
  }

  std::vector<Exchange> exchanges_;
  std::vector<Values> inputs_;
  Values sum_;
};

void check_job(const Job& job) {
  for (int rank = 0; rank < job.ranks(); ++rank) {
    const Exchange& exchange = job.exchange(rank);
    const Pattern pattern(rank, job.ranks(), 5);
    Values result = job.result(rank);
    ASSERT_EQ(result.size(), exchange.result_elements());
    EXPECT_EQ(exchange.check(pattern, result.data()), "");
    for (std::size_t wrong = 0; wrong < result.size(); wrong += 1 + result.size() / 7) {
      const float right = result[wrong];
      result[wrong] = right + 1;
      EXPECT_THAT(exchange.check(pattern, result.data()),
                  HasSubstr("element " + std::to_string(wrong) + " of the result of " +
                            name_of(exchange.operation) + " on rank " + std::to_string(rank)));
      result[wrong] = right;
    }
  }
}

TEST(BenchExchange, KnowsTheResultOfEachOperation) {
  for (const Operation operation : all_operations()) {
    if (operation == Operation::kBarrier) continue;
    for (const int ranks : {1, 2, 3, 4, 7}) {
      for (const std::size_t elements : {1U, 4U, 17U, 9001U}) {
        SCOPED_TRACE(name_of(operation) + " of " + std::to_string(elements) + " on " +
                     std::to_string(ranks));
        check_job(Job(operation, elements, ranks));
      }
    }
  }
}

TEST(BenchExchange, AlltoallTakesWhatTheOthersGive) {
  const Job job(Operation::kAlltoall, 17, 4);
  for (int rank = 0; rank < 4; ++rank) {
    for (int other = 0; other < 4; ++other) {
      EXPECT_EQ(job.exchange(rank).take[static_cast<std::size_t>(other)],
                job.exchange(other).give[static_cast<std::size_t>(rank)]);
    }
  }
}

TEST(BenchExchange, AResultThatWasNotWrittenIsNoticed) {
  const Exchange exchange = exchange_of(Operation::kAllgather, 5, 0, 2);
  Values input(5), output(10);
  const Pattern pattern(0, 2, 0);
  exchange.refresh(pattern, input.data(), output.data());
  EXPECT_THAT(exchange.check(pattern, output.data()), HasSubstr("element 0"));
  // In place the input is what is left, which is neither the sum nor another rank's.
  const Exchange in_place = exchange_of(Operation::kAllreduce, 500, 0, 2);
  Values values(500);
  in_place.refresh(pattern, values.data(), nullptr);
  EXPECT_NE(in_place.check(pattern, values.data()), "");
}

// In place each call sums what the one before has left; elsewhere all give the same.
TEST(BenchExchange, CallsInARowChangeWhatIsInPlaceAlone) {
  for (const Operation operation : all_operations()) {
    if (operation == Operation::kBarrier) continue;
    SCOPED_TRACE(name_of(operation));
    const Job job(operation, 17, 2);
    const Values once = job.result(0);
    Values thrice = once;
    for (float& value : thrice) value *= 4;
    const Pattern pattern(0, 2, 5, 3);
    const bool sums_in_place = job.exchange(0).in_place() && operation != Operation::kBroadcast;
    EXPECT_EQ(job.exchange(0).check(pattern, once.data()).empty(), !sums_in_place);
    EXPECT_EQ(job.exchange(0).check(pattern, thrice.data()).empty(), sums_in_place);
  }
}

TEST(BenchExchange, BarrierHasNothing) {
  const Exchange exchange = exchange_of(Operation::kBarrier, 0, 1, 2);
  EXPECT_EQ(exchange.result_elements() + exchange.output_elements(), 0U);
  EXPECT_EQ(exchange.check(Pattern(1, 2, 0), nullptr), "");
}

}  // namespace
}  // namespace kolo::bench
