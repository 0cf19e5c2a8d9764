#include "tools/trace/findings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include "core/ranks.hpp"

namespace kolo::tools {
namespace {

// Fractions of a step. A smaller cost is not worth a change.
constexpr double kLittle = 0.05;
constexpr double kMuch = 0.10;

constexpr std::size_t kMostStragglers = 5;
constexpr std::size_t kLeastAlone = 8;
constexpr double kNearSize = 1;     // octaves
constexpr double kLateGap = 0.10;   // of a step, before the tensors that are ready late
constexpr double kSlowSpeed = 0.5;  // of the measured speed
constexpr double kManySmall = 8;    // collectives a step
constexpr double kFewBuckets = 2;   // a step
constexpr double kMebibyte = 1 << 20;
constexpr std::size_t kMostNames = 4;
constexpr std::size_t kMostPeriods = 2;
constexpr int kMostCores = 1 << 16;

std::string format(const char* form, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

std::string percent(double part) {
  return format("%.0f %%", 100 * part);
}

std::string times_a_step(double count) {
  return format(count < 9.5 ? "%.1f" : "%.0f", count);
}

class Adviser {
 public:
  Adviser(const RunActivity& run, const Analysis& analysis, const Measured& measured)
      : run_(run), analysis_(analysis), measured_(measured), step_(analysis.mean.whole()) {}

  std::vector<Finding> findings() {
    tell_of_long_steps();
    tell_of_stragglers();
    tell_of_data();
    if (part(lost()) >= kLittle) {
      tell_of_uneven_ranks();
      tell_of_shared_cores();
      tell_of_late_tensors();
      tell_of_small_collectives();
      tell_of_few_buckets();
      tell_of_speed();
    }
    if (findings_.empty()) tell_that_all_is_well();
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) { return a.cost > b.cost; });
    return std::move(findings_);
  }

 private:
  double lost() const { return analysis_.mean.exposed + analysis_.mean.waiting; }
  double part(double time) const { return step_ > 0 ? time / step_ : 0; }
  // A small cost is not worth a change.
  void tell(double cost, std::string title, std::string text) {
    if (part(cost) >= kLittle) findings_.push_back({cost, std::move(title), std::move(text)});
  }
  const TraceHeader& header(int rank) const { return run_.ranks.at(rank).trace.header; }

  void tell_of_long_steps() {
    const LongSteps& steps = analysis_.long_steps;
    if (steps.steps.empty()) return;
    std::string which;
    for (std::size_t i = 0; i < std::min(steps.steps.size(), kMostNames); ++i)
      which += (i > 0 ? ", " : "") + std::to_string(steps.steps[i]);
    if (steps.steps.size() > kMostNames) which += ", ...";
    const auto count = static_cast<double>(steps.steps.size());
    std::string text =
        "All other results here leave them out. If the program evaluates or saves in them, do that "
        "less often, or on all ranks together; otherwise look at these steps in the output of kolo "
        "trace merge.";
    if (steps.latest_rank >= 0) {
      text += " Rank " + std::to_string(steps.latest_rank) +
              " comes last in them, and the others wait for it.";
    }
    tell(steps.time * count / static_cast<double>(analysis_.counted + steps.steps.size()),
         std::to_string(steps.steps.size()) + " of " + std::to_string(analysis_.steps.size()) +
             " steps (" + which + ") take " + time_text(steps.time) + " instead of " +
             time_text(step_),
         std::move(text));
  }

  std::string periods_of(const Straggler& one, std::int64_t first_step) const {
    if (one.periods.size() > kMostPeriods) {
      return "now and then: in " + std::to_string(one.steps) + " of " +
             std::to_string(analysis_.counted) + " steps";
    }
    std::string text;
    for (const Straggler::Period& period : one.periods) {
      const bool from_begin = period.first_step <= first_step;
      if (!text.empty()) text += " and ";
      if (from_begin && period.until_end) {
        text += "all the time";
      } else if (period.until_end) {
        text += "since step " + std::to_string(period.first_step);
      } else if (from_begin) {
        text += "until step " + std::to_string(period.last_step);
      } else {
        text += "from step " + std::to_string(period.first_step) + " to " +
                std::to_string(period.last_step);
      }
    }
    return text;
  }

  // Returns the rank's cost, spread over all steps that count.
  double cost_of(const Straggler& one) const {
    return one.late * static_cast<double>(one.steps) / static_cast<double>(analysis_.counted);
  }

  void tell_of_stragglers() {
    const auto begin = std::find(analysis_.counts.begin(), analysis_.counts.end(), true);
    const std::int64_t first =
        analysis_.steps[static_cast<std::size_t>(begin - analysis_.counts.begin())];
    std::vector<const Straggler*> worth_it;
    for (const Straggler& one : analysis_.stragglers)
      if (part(cost_of(one)) >= kLittle) worth_it.push_back(&one);
    const std::size_t told = std::min(worth_it.size(), kMostStragglers);
    for (std::size_t i = 0; i < told; ++i) {
      const Straggler& one = *worth_it[i];
      std::string text =
          "It comes " + time_text(one.late) + " later than most in each step (" +
          percent(part(one.late)) + "), and the others wait for it. Outside of waits it works " +
          time_text(one.works) + " a step, the others " + time_text(one.others) + ". Look on " +
          header(one.rank).host +
          " for other processes on its cores (top), a lower clock, a device or a disk that is "
          "slower than the others', and whether its data take longer to load.";
      if (i == 0 && told < worth_it.size()) {
        text += " " + std::to_string(worth_it.size()) + " ranks are slow; the " +
                std::to_string(told) + " that cost most are shown.";
      }
      tell(cost_of(one),
           "Rank " + std::to_string(one.rank) + " on " + header(one.rank).host + " is slow, " +
               periods_of(one, first),
           std::move(text));
    }
  }

  void tell_of_data() {
    tell(
        analysis_.data_wait,
        "Ranks wait " + percent(part(analysis_.data_wait)) + " of the step for data",
        "They wait " + time_text(analysis_.data_wait) +
            " a step for a batch of a DataLoader, which loads more slowly than they train. Give it "
            "more workers (DataLoaderOptions), start loader processes (kolo run --cpus), or make "
            "samples cheaper to load (kolo data convert).");
  }

  // Reports ranks that wait, but not for the same rank.
  void tell_of_uneven_ranks() {
    double explained = 0;
    for (const Straggler& one : analysis_.stragglers) explained = std::max(explained, cost_of(one));
    if (analysis_.ranks.size() < 2 || explained > analysis_.for_others / 2) return;
    tell(analysis_.for_others,
         "Ranks wait for each other " + percent(part(analysis_.for_others)) +
             " of the time, not always for the same rank",
         "No rank is late for long: their steps differ from one to the next, so that in each step "
         "all ranks wait for the slowest one. Give all ranks the same amount of work in each step "
         "(texts or meshes of one length), load data ahead of time, and let nothing else run on "
         "their cores.");
  }

  void tell_of_shared_cores() {
    std::map<std::string, std::vector<int>> hosts;
    for (const int rank : analysis_.ranks) hosts[header(rank).host].push_back(rank);
    for (const auto& [host, ranks] : hosts) {
      std::map<int, int> users;  // of each core
      for (const int rank : ranks) {
        for (const int core : parse_core_list(header(rank).cores)) ++users[core];
      }
      std::vector<int> sharing;
      std::set<int> cores;  // of the sharing ranks
      for (const int rank : ranks) {
        const std::vector<int> own = parse_core_list(header(rank).cores);
        const bool shares =
            std::any_of(own.begin(), own.end(), [&](int core) { return users[core] > 1; });
        if (!shares) continue;
        sharing.push_back(rank);
        cores.insert(own.begin(), own.end());
      }
      if (!sharing.empty()) tell_of_cores(host, sharing, cores.size());
    }
  }

  void tell_of_cores(const std::string& host, const std::vector<int>& ranks, std::size_t cores) {
    const std::string who = rank_list(ranks);
    const double cost = kLittle * step_;  // unknown: the least that is reported
    if (cores < ranks.size()) {
      tell(lost() / 2, "There are more ranks than cores on " + host,
           "R" + who.substr(1) + " have " + std::to_string(cores) +
               " cores together: while one computes, another waits for a core, and all wait for "
               "that one. Start at most as many ranks as there are cores.");
    } else {
      tell(
          cost, "Ranks on " + host + " are not bound to cores of their own",
          "R" + who.substr(1) +
              " may use the same cores, and the kernel moves their threads. "
              "Bind them: kolo run --bind-to core, mpirun --map-by slot:PE=THREADS --bind-to core, "
              "srun --cpu-bind=cores.");
    }
  }

  // Finds the largest gap between tensors' times, with only few tensors after it.
  void tell_of_late_tensors() {
    const std::vector<TensorTiming>& tensors = analysis_.tensors;
    if (part(analysis_.mean.exposed) < kLittle || tensors.size() < 2) return;
    const std::size_t most = std::max<std::size_t>(1, tensors.size() / 4);
    std::size_t late = 0;
    double gap = 0;
    for (std::size_t i = 1; i <= most; ++i) {
      const double here = tensors[i - 1].ready - tensors[i].ready;
      if (here > gap) {
        gap = here;
        late = i;
      }
    }
    if (part(gap) < kLateGap) return;
    std::string names;
    for (std::size_t i = 0; i < std::min(late, kMostNames); ++i)
      names += (i > 0 ? ", '" : "'") + tensors[i].name + "'";
    if (late > kMostNames) names += " and " + std::to_string(late - kMostNames) + " more";
    tell(std::min(gap, analysis_.mean.exposed),
         names + (late == 1 ? " is" : " are") + " reduced late",
         std::string(late == 1 ? "It is" : "They are") + " submitted " + time_text(gap) +
             " after all others (" + percent(part(gap)) +
             " of a step), when nothing is left to compute meanwhile. A tensor whose newest values "
             "are not needed (a loss that is shown) can be reduced with the next step's tensors or "
             "less often; a gradient that is large and last (the first layer's, an embedding's) "
             "travels in half the bytes with Compression::Bf16.");
  }

  void tell_of_small_collectives() {
    if (analysis_.small_collectives < kManySmall) return;
    const std::int64_t threshold = header(analysis_.ranks.front()).bucket_bytes;
    std::string text = times_a_step(analysis_.small_collectives) + " of " +
                       times_a_step(analysis_.collectives) + " collectives a step have less than " +
                       bytes_text(kSmall) + ", and the program waits " +
                       time_text(analysis_.small_waits) +
                       " for them although all ranks are ready. Fewer, larger ones cost less. ";
    if (static_cast<double>(threshold) < kMebibyte) {
      text += "KOLO_FUSION_THRESHOLD is " + bytes_text(static_cast<double>(threshold)) +
              ": raise it (4 MiB is the default), and they travel together.";
    } else {
      text +=
          "They do not travel together because each is waited for before the next is "
          "submitted, or because their names change from step to step: submit all of them "
          "(the *_async functions, or a DistributedOptimizer) before waiting for the first, "
          "under the same names.";
    }
    tell(analysis_.small_waits, "Many small collectives", std::move(text));
  }

  void tell_of_few_buckets() {
    const bool few = analysis_.buckets > 0 && analysis_.buckets <= kFewBuckets &&
                     analysis_.bucket_bytes > analysis_.bytes / 2;
    const bool hidden = analysis_.mean.overlapped > analysis_.mean.exposed;
    if (!few || hidden || analysis_.bucket_bytes < kMebibyte ||
        part(analysis_.mean.exposed) < kMuch)
      return;
    const std::int64_t threshold = header(analysis_.ranks.front()).bucket_bytes;
    const double better = std::exp2(std::round(std::log2(analysis_.bucket_bytes / 8)));
    tell(analysis_.mean.exposed / 2, "Buckets are so large that reducing begins late",
         "The " + bytes_text(analysis_.bucket_bytes) + " of a step that are packed travel in " +
             times_a_step(analysis_.buckets) +
             " buckets, which are complete when backward is nearly done. With "
             "KOLO_FUSION_THRESHOLD=" +
             format("%.0f", better) + " (now " + bytes_text(static_cast<double>(threshold)) +
             ") the first ones travel while the rest is computed.");
  }

  // Compares the collectives that take most of the time with the machine's measured speed.
  void tell_of_speed() {
    const Speed* longest = nullptr;
    for (const Speed& one : analysis_.speeds) {
      const std::string_view phase = one.phase;
      constexpr std::string_view kEnd = "_ALLREDUCE";
      const bool fits = phase.size() > kEnd.size() &&
                        phase.substr(phase.size() - kEnd.size()) == kEnd &&
                        one.alone >= kLeastAlone;
      if (fits && (longest == nullptr || one.time > longest->time)) longest = &one;
    }
    if (longest == nullptr) return;
    const MeasuredSpeed* nearest = nullptr;
    const auto distance = [&](double bytes) { return std::abs(std::log2(bytes / longest->bytes)); };
    for (const MeasuredSpeed& one : measured_.speeds) {
      if (one.who.rfind("kolo", 0) != 0 || distance(one.bytes) > kNearSize) continue;
      const bool closer = nearest == nullptr || distance(one.bytes) < distance(nearest->bytes);
      const bool slower =
          nearest != nullptr && one.bytes == nearest->bytes && one.gigabytes < nearest->gigabytes;
      if (closer || slower) nearest = &one;
    }
    const double rate = longest->alone_gigabytes;
    if (nearest == nullptr || rate > kSlowSpeed * nearest->gigabytes) return;
    tell(std::min(longest->time * (1 - rate / nearest->gigabytes), analysis_.mean.exposed),
         "Reductions are slower than this machine's were by themselves",
         longest->phase + " of " + bytes_text(longest->bytes) + " with nothing beside it runs at " +
             format("%.2f GB/s", rate) + "; kolo bench measured " +
             format("%.2f GB/s", nearest->gigabytes) + " for " + bytes_text(nearest->bytes) + " (" +
             nearest->who +
             "). Computing competes with it for memory bandwidth or cores: leave a core to kolo's "
             "thread (one thread less for LibTorch), bind ranks, and check whether other programs "
             "use the network.");
  }

  void tell_that_all_is_well() {
    const std::string share = percent(part(lost()));
    if (part(lost()) < kLittle) {
      findings_.push_back({lost(), "There is little to gain here",
                           "Ranks wait " + share +
                               " of the time for communication and for each other. The rest is "
                               "the program's own work."});
    } else {
      tell(lost(), "Ranks wait " + share + " of the time",
           time_text(analysis_.mean.exposed) + " a step for communication and " +
               time_text(analysis_.mean.waiting) +
               " to agree and for each other. No known cause stands out: more work between "
               "reductions (a larger batch, backward_passes_per_step), or fewer bytes "
               "(Compression::Bf16) make the part smaller.");
    }
  }

  const RunActivity& run_;
  const Analysis& analysis_;
  const Measured& measured_;
  const double step_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string time_text(double microseconds) {
  if (microseconds >= 1e6) return format("%.2f s", microseconds / 1e6);
  if (microseconds >= 1e3)
    return format(microseconds >= 1e4 ? "%.1f ms" : "%.2f ms", microseconds / 1e3);
  return format("%.0f us", microseconds);
}

std::string bytes_text(double bytes) {
  static constexpr std::array<const char*, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return format(bytes == std::floor(bytes) ? "%.0f " : "%.1f ", bytes) + kUnits[unit];
}

std::vector<int> parse_core_list(const std::string& text) {
  std::vector<int> cores;
  for (std::size_t at = 0; at < text.size();) {
    int first = 0;
    int last = 0;
    int length = 0;
    const char* const here = text.c_str() + at;
    if (std::sscanf(here, "%5d-%5d%n", &first, &last, &length) != 2) {
      if (std::sscanf(here, "%5d%n", &first, &length) != 1) return {};
      last = first;
    }
    if (first < 0 || last < first || last >= kMostCores ||
        cores.size() + static_cast<std::size_t>(last - first) >= kMostCores) {
      return {};
    }
    for (int core = first; core <= last; ++core) cores.push_back(core);
    at += static_cast<std::size_t>(length);
    if (at < text.size() && text[at++] != ',') return {};
  }
  return cores;
}

std::vector<Finding> find_causes(const RunActivity& run, const Analysis& analysis,
                                 const Measured& measured) {
  return Adviser(run, analysis, measured).findings();
}

}  // namespace kolo::tools
