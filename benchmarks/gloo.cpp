#include "benchmarks/gloo.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

#include "benchmarks/gloo_script.hpp"
#include "benchmarks/stay.hpp"
#include "cli/process/environment.hpp"

namespace kolo::bench {
namespace {

// "8,8", or "-" for none.
std::string listed(const std::vector<int>& counts) {
  std::string text;
  for (const int count : counts) text += (text.empty() ? "" : ",") + std::to_string(count);
  return text.empty() ? "-" : text;
}

// What the child does each time that it is told to run.
class OnChild : public Contender {
 public:
  OnChild(std::string name, Child& child) : name_(std::move(name)), child_(child) {}

  std::string name() const override { return name_; }
  std::string placement() const override { return "unbound"; }

  void run() override { repeat(1); }

  void repeat(int calls) override {
    std::istringstream text(ask("run " + std::to_string(calls), "ran"));
    double began = 0;
    double entered = 0;
    double left = 0;
    text >> began >> entered >> left;
    if (!text) throw ContenderFailed("'run' was answered without times");
    stay_ = {entered / 1000, left / 1000};
    microseconds_ = (left - began) / 1000;
  }

  std::optional<double> measured_microseconds() const override { return microseconds_; }

 protected:
  // What is in the shared memory.
  void load() { ask("load", "loaded"); }
  const Stay& stay() const { return stay_; }  // in the last call

 private:
  std::string ask(const std::string& line, const std::string& word) {
    try {
      return child_.ask(line, word);
    } catch (const ChildError& error) {
      throw ContenderFailed(error.what());
    }
  }

  const std::string name_;
  Child& child_;  // outlives the benchmark's contenders
  Stay stay_;
  double microseconds_ = 0;
};

class GlooOperation final : public OnChild {
 public:
  GlooOperation(Ranks& ranks, Child& child, Exchange exchange, float* memory)
      : OnChild("gloo", child),
        ranks_(ranks),
        exchange_(std::move(exchange)),
        input_(memory),
        output_(memory + exchange_.elements) {}

  void refresh(const Pattern& pattern) override {
    exchange_.refresh(pattern, input_, output_);
    load();
  }

  std::string check(const Pattern& pattern) override {
    if (exchange_.operation == Operation::kBarrier) return left_too_early(ranks_, stay());
    return exchange_.check(pattern, exchange_.in_place() ? input_ : output_);
  }

 private:
  Ranks& ranks_;  // outlives the benchmark's contenders
  const Exchange exchange_;
  float* const input_;  // the Gloo's memory
  float* const output_;
};

// The inputs lie in the memory one after the other, and the sums of the gradients where they did.
class GlooModel final : public OnChild {
 public:
  GlooModel(int rank, Child& child, std::vector<Parameter> parameters, float* memory)
      : OnChild("ddp-gloo", child),
        rank_(rank),
        parameters_(std::move(parameters)),
        memory_(memory) {}

  void refresh(const Pattern& pattern) override {
    pattern.fill(memory_, elements_of(parameters_));
    load();
  }

  std::string check(const Pattern& pattern) override {
    std::size_t offset = 0;
    for (const Parameter& parameter : parameters_) {
      const std::size_t count = parameter.elements();
      if (const auto difference = pattern.first_difference(memory_ + offset, count, offset))
        return describe(*difference, "the gradient of '" + parameter.name + "'", rank_);
      offset += count;
    }
    return "";
  }

 private:
  const int rank_;
  const std::vector<Parameter> parameters_;
  float* const memory_;  // the Gloo's
};

// All ranks have the same values, which the child puts back into the memory as they came out of the
// checkpoint.
class GlooCheckpoint final : public OnChild {
 public:
  GlooCheckpoint(int rank, Child& child, std::vector<Parameter> parameters, float* memory)
      : OnChild("dcp", child), rank_(rank), parameters_(std::move(parameters)), memory_(memory) {}

  void refresh(const Pattern& pattern) override {
    values_of(pattern).fill(memory_, elements_of(parameters_));
    load();
    std::fill_n(memory_, elements_of(parameters_), -1.0F);
  }

  std::string check(const Pattern& pattern) override {
    const auto difference = values_of(pattern).first_difference(memory_, elements_of(parameters_));
    return difference ? describe(*difference, "what was restored", rank_) : "";
  }

 private:
  static Pattern values_of(const Pattern& pattern) { return {0, 1, pattern.round()}; }

  const int rank_;
  const std::vector<Parameter> parameters_;
  float* const memory_;  // the Gloo's
};

const char* name_of(CheckpointWork work) {
  if (work == CheckpointWork::kSave) return "save";
  return work == CheckpointWork::kStall ? "stall" : "restore";
}

}  // namespace

Gloo::Gloo(Ranks& ranks, const std::string& python, const std::string& host,
           std::size_t shared_elements, double deadline_seconds, int threads)
    : ranks_(ranks), memory_(shared_elements * sizeof(float)) {
  together(ranks, [&] { start(python, deadline_seconds, threads); });
  double port = 0;
  together(ranks, [&] {
    if (ranks.rank() != 0) return;
    const std::string text = child_->ask("store " + host, "port");
    port = static_cast<double>(cli::parse_integer(text).value_or(0));
  });
  ranks.largest(&port, 1);
  together(ranks, [&] {
    child_->ask("join " + host + " " + std::to_string(std::lround(port)), "joined");
  });
}

void Gloo::start(const std::string& python, double deadline_seconds, int threads) {
  const std::string rank = std::to_string(ranks_.rank());
  const std::vector<std::string> command = {python,
                                            "-u",
                                            "-c",
                                            kGlooScript,
                                            rank,
                                            std::to_string(ranks_.size()),
                                            std::to_string(memory_.descriptor()),
                                            std::to_string(memory_.bytes()),
                                            std::to_string(deadline_seconds),
                                            std::to_string(threads)};
  child_ = std::make_unique<Child>(python + " of rank " + rank, command, deadline_seconds);
  torch_version_ = child_->ask("start", "torch");
}

Gloo::Offer Gloo::offer(const Exchange& exchange) {
  const std::string line = "work " + name_of(exchange.operation) + " " +
                           std::to_string(exchange.elements) + " " +
                           std::to_string(exchange.output_elements()) + " " +
                           listed(exchange.give) + " " + listed(exchange.take);
  std::string missing;
  together(ranks_, [&] { missing = child_->ask(line, "tried"); });
  double misses = missing.empty() ? 0 : 1;
  ranks_.largest(&misses, 1);
  if (misses != 0) return {nullptr, missing.empty() ? "not on another rank" : missing};
  auto* memory = static_cast<float*>(memory_.data());
  return {std::make_unique<GlooOperation>(ranks_, *child_, exchange, memory), ""};
}

std::unique_ptr<Contender> Gloo::data_parallel(const std::vector<Parameter>& parameters) {
  together(ranks_, [&] { child_->ask("model " + shapes_of(parameters), "made"); });
  auto* memory = static_cast<float*>(memory_.data());
  return std::make_unique<GlooModel>(ranks_.rank(), *child_, parameters, memory);
}

std::unique_ptr<Contender> Gloo::checkpoint(const std::vector<Parameter>& parameters,
                                            CheckpointWork work, const std::string& folder) {
  together(ranks_, [&] {
    child_->ask(
        std::string("checkpoint ") + name_of(work) + " " + shapes_of(parameters) + " " + folder,
        "made");
  });
  auto* memory = static_cast<float*>(memory_.data());
  return std::make_unique<GlooCheckpoint>(ranks_.rank(), *child_, parameters, memory);
}

}  // namespace kolo::bench
