#include "benchmarks/tune.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/hierarchy/backend.hpp"

namespace kolo::bench {
namespace {

constexpr std::array kAlgorithms = {AllreduceAlgorithm::kRecursiveDoubling,
                                    AllreduceAlgorithm::kHalvingDoubling, AllreduceAlgorithm::kRing,
                                    AllreduceAlgorithm::kTree};
constexpr double kClearlyQuicker = 0.95;
constexpr Tag kTag = 1;

void throw_unless_ok(const Status& status) {
  if (!status.is_ok()) throw std::runtime_error(status.message());
}

class AlgorithmContender final : public Contender {
 public:
  AlgorithmContender(Ranks& ranks, Transport* transport, AllreduceAlgorithm algorithm,
                     std::size_t elements)
      : ranks_(ranks),
        transport_(transport),
        algorithm_(algorithm),
        values_(transport == nullptr ? 0 : elements) {
    tuning_.allreduce.groups = {{2, {{0, algorithm}}}};
  }

  std::string name() const override { return name_of(algorithm_); }

  // The pattern is the group's: its ranks count from 0.
  void refresh(const Pattern& pattern) override {
    round_ = pattern.round();
    calls_ = pattern.calls();
    if (transport_ != nullptr) own_pattern().fill(values_.data(), values_.size());
  }

  void run() override {
    if (transport_ == nullptr) return;
    const std::unique_ptr<Work> work =
        make_allreduce(*transport_, kTag, values_.data(), values_.size(), {}, tuning_);
    throw_unless_ok(work->start());
    for (;;) {
      Status status;
      const Progress progress = work->step(status);
      throw_unless_ok(status);
      if (progress == Progress::kDone) return;
      if (progress == Progress::kWaiting) sched_yield();
    }
  }

  std::string check(const Pattern& /*pattern*/) override {
    if (transport_ == nullptr) return "";
    const auto difference = own_pattern().first_difference(values_.data(), values_.size());
    if (!difference) return "";
    std::ostringstream text;
    text << "element " << difference->index << " on rank " << ranks_.rank() << " is "
         << difference->found << ", expected " << difference->expected;
    return text.str();
  }

 private:
  Pattern own_pattern() const { return {transport_->rank(), transport_->size(), round_, calls_}; }

  Ranks& ranks_;                // outlives the benchmark's contenders
  Transport* const transport_;  // likewise
  const AllreduceAlgorithm algorithm_;
  Tuning tuning_;
  std::vector<float> values_;
  int round_ = 0;
  int calls_ = 1;
};

}  // namespace

MessageGroup find_message_group(const std::vector<int>& nodes, int rank) {
  if (const auto hierarchy = find_hierarchy(nodes, rank)) {
    std::vector<int> distinct = nodes;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    return {hierarchy->cross, static_cast<int>(distinct.size())};
  }
  MessageGroup all{{}, static_cast<int>(nodes.size())};
  for (int each = 0; each < all.size; ++each) all.mine.push_back(each);
  return all;
}

std::vector<int> sizes_of_groups(int largest) {
  std::vector<int> sizes;
  for (int size = 2; size < largest; size *= 2) sizes.push_back(size);
  if (largest > 1) sizes.push_back(largest);
  return sizes;
}

Contenders algorithm_contenders(Ranks& ranks, Transport* transport, std::size_t elements) {
  Contenders contenders;
  for (const AllreduceAlgorithm algorithm : kAlgorithms) {
    contenders.push_back(
        std::make_unique<AlgorithmContender>(ranks, transport, algorithm, elements));
  }
  return contenders;
}

std::vector<AllreduceRow> rows_of(const std::vector<Timing>& timings) {
  std::vector<AllreduceRow> rows;
  for (const Timing& timing : timings) {
    const auto best = std::min_element(timing.microseconds.begin(), timing.microseconds.end());
    const AllreduceAlgorithm quickest =
        kAlgorithms.at(static_cast<std::size_t>(best - timing.microseconds.begin()));
    if (!rows.empty()) {
      const auto last = std::find(kAlgorithms.begin(), kAlgorithms.end(), rows.back().algorithm);
      const double now =
          timing.microseconds.at(static_cast<std::size_t>(last - kAlgorithms.begin()));
      if (*best >= now * kClearlyQuicker) continue;
    }
    rows.push_back({rows.empty() ? 0 : timing.bytes, quickest});
  }
  return rows;
}

std::string table_with_comments(const AllreduceTable& table,
                                const std::vector<std::string>& lines) {
  std::string text = write_allreduce_table(table);
  std::string comments;
  for (const std::string& line : lines) comments += "# " + line + "\n";
  return text.insert(text.find('\n') + 1, comments);
}

}  // namespace kolo::bench
