#include "metrics/text.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace kolo {
namespace {

std::string number(double value) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end};
}

class MetricsText {
 public:
  explicit MetricsText(const std::map<int, RankMeasures>& ranks) : ranks_(ranks) {}

  // Adds value(RankMeasures) for each rank.
  template <typename Value>
  void add(const char* name, const char* type, const char* help, const Value& value) {
    head(name, type, help);
    for (const auto& [rank, measures] : ranks_)
      line(name, "rank=\"" + std::to_string(rank) + "\"", number(value(measures)));
  }

  void add_kinds(const char* name, const char* help,
                 const std::array<std::uint64_t, kOpKindCount> Measures::*counts) {
    head(name, "counter", help);
    for (const auto& [rank, measures] : ranks_) {
      for (std::size_t kind = 0; kind < kOpKindCount; ++kind) {
        if (measures.measures.operations[kind] == 0) continue;
        line(name,
             "rank=\"" + std::to_string(rank) + "\",operation=\"" +
                 name_of(static_cast<OpKind>(kind)) + "\"",
             std::to_string((measures.measures.*counts)[kind]));
      }
    }
  }

  // Accumulates the counts: a bucket of Prometheus includes all smaller ones.
  void add_times(const std::string& name, const char* help, const TimeCounts Measures::*times) {
    head(name, "histogram", help);
    for (const auto& [rank, measures] : ranks_) {
      const std::string label = "rank=\"" + std::to_string(rank) + "\"";
      const TimeCounts& counts = measures.measures.*times;
      std::uint64_t so_far = 0;
      for (std::size_t i = 0; i < TimeCounts::kBounds; ++i) {
        so_far += counts.counts[i];
        line(name + "_bucket", label + ",le=\"" + number(TimeCounts::bound(i)) + "\"",
             std::to_string(so_far));
      }
      so_far += counts.counts[TimeCounts::kBounds];
      line(name + "_bucket", label + ",le=\"+Inf\"", std::to_string(so_far));
      line(name + "_sum", label, number(static_cast<double>(counts.sum) / 1e9));
      line(name + "_count", label, std::to_string(so_far));
    }
  }

  std::string take() { return std::move(text_); }

 private:
  void head(const std::string& name, const char* type, const char* help) {
    text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void line(const std::string& name, const std::string& labels, const std::string& value) {
    text_ += name + "{" + labels + "} " + value + "\n";
  }

  const std::map<int, RankMeasures>& ranks_;
  std::string text_;
};

}  // namespace

std::string metrics_text(const std::map<int, RankMeasures>& ranks, Clock::time_point now) {
  MetricsText text(ranks);
  const auto count = [&](const char* name, const char* help, std::uint64_t Measures::*field) {
    text.add(name, "counter", help,
             [field](const RankMeasures& one) { return static_cast<double>(one.measures.*field); });
  };
  text.add("kolo_age_seconds", "gauge", "Age of the rank's counters in seconds.",
           [now](const RankMeasures& one) {
             return std::chrono::duration<double>(now - one.at).count();
           });
  text.add("kolo_step", "gauge", "The rank's current training step, from 1 on.",
           [](const RankMeasures& one) { return static_cast<double>(one.measures.step); });
  text.add_kinds("kolo_operations_total", "Tensors whose operations succeeded.",
                 &Measures::operations);
  text.add_kinds("kolo_bytes_total", "Bytes of this rank's values in these operations.",
                 &Measures::bytes);
  count("kolo_failed_operations_total", "Operations that failed.", &Measures::failed);
  count("kolo_collectives_total", "Collectives that ran; a bucket is one.", &Measures::collectives);
  count("kolo_buckets_total", "Buckets that ran.", &Measures::buckets);
  count("kolo_known_names_total", "Submissions under a name that has a number (cache hits).",
        &Measures::known);
  count("kolo_announced_names_total", "Submissions under a name without a number (cache misses).",
        &Measures::announced);
  count("kolo_stalls_total", "Stalls that were reported.", &Measures::stalls);
  text.add_times("kolo_negotiation_seconds",
                 "Time from the submission of a bucket's last tensor, or of a tensor that is "
                 "reduced alone, until all ranks have agreed on it.",
                 &Measures::negotiation);
  text.add_times(
      "kolo_collective_seconds",
      "Time from the start to the end of the collective of a bucket or of a tensor alone.",
      &Measures::collective);
  text.add_times("kolo_wait_seconds",
                 "Time for which a thread of the program waited for an operation.",
                 &Measures::wait);
  text.add_times("kolo_data_wait_seconds",
                 "Time for which the program waited for a batch of a DataLoader.",
                 &Measures::data_wait);
  return text.take();
}

void MetricsBoard::keep(int rank, const Measures& measures) {
  const MutexLock lock(mutex_);
  ranks_[rank] = {measures, Clock::now()};
}

std::string MetricsBoard::text() const {
  std::map<int, RankMeasures> ranks;
  {
    const MutexLock lock(mutex_);
    ranks = ranks_;
  }
  return metrics_text(ranks, Clock::now());
}

}  // namespace kolo
