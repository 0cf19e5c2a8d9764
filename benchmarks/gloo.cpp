#include "benchmarks/gloo.hpp"

#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

#include "benchmarks/gloo_script.hpp"
#include "benchmarks/stay.hpp"
#include "cli/environment.hpp"

namespace kolo::bench {
namespace {

// "8,8", or "-" for none.
std::string listed(const std::vector<int>& counts) {
  std::string text;
  for (const int count : counts) text += (text.empty() ? "" : ",") + std::to_string(count);
  return text.empty() ? "-" : text;
}

// Collective. What goes wrong with the child of one rank ends the run on all.
template <typename Step>
void together(Ranks& ranks, Step&& step) {
  std::string problem;
  try {
    step();
  } catch (const ChildError& error) {
    problem = error.what();
  }
  agree(ranks, problem);
}

class GlooContender final : public Contender {
 public:
  GlooContender(Ranks& ranks, Child& child, Exchange exchange, float* memory)
      : ranks_(ranks),
        child_(child),
        exchange_(std::move(exchange)),
        input_(memory),
        output_(memory + exchange_.elements) {}

  std::string name() const override { return "gloo"; }

  void refresh(const Pattern& pattern) override {
    exchange_.refresh(pattern, input_, output_);
    ask("load", "loaded");
  }

  void run() override {
    std::istringstream text(ask("run", "ran"));
    double nanoseconds[2] = {0, 0};
    text >> nanoseconds[0] >> nanoseconds[1];
    if (!text) throw ContenderFailed("'run' was answered without times");
    stay_ = {nanoseconds[0] / 1000, nanoseconds[1] / 1000};
  }

  std::optional<double> measured_microseconds() const override {
    return stay_.left - stay_.entered;
  }

  std::string check(const Pattern& pattern) override {
    if (exchange_.operation == Operation::kBarrier) return left_too_early(ranks_, stay_);
    return exchange_.check(pattern, exchange_.in_place() ? input_ : output_);
  }

 private:
  std::string ask(const std::string& line, const std::string& word) {
    try {
      return child_.ask(line, word);
    } catch (const ChildError& error) {
      throw ContenderFailed(error.what());
    }
  }

  Ranks& ranks_;  // outlives the benchmark's contenders, as the next two do
  Child& child_;
  const Exchange exchange_;
  float* const input_;
  float* const output_;
  Stay stay_;
};

}  // namespace

Gloo::Gloo(Ranks& ranks, const std::string& python, const std::string& host,
           std::size_t shared_elements, double deadline_seconds)
    : ranks_(ranks), memory_(shared_elements * sizeof(float)) {
  together(ranks, [&] { start(python, deadline_seconds); });
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

void Gloo::start(const std::string& python, double deadline_seconds) {
  const std::string rank = std::to_string(ranks_.rank());
  const std::vector<std::string> command = {python,
                                            "-u",
                                            "-c",
                                            kGlooScript,
                                            rank,
                                            std::to_string(ranks_.size()),
                                            std::to_string(memory_.descriptor()),
                                            std::to_string(memory_.bytes()),
                                            std::to_string(deadline_seconds)};
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
  return {std::make_unique<GlooContender>(ranks_, *child_, exchange, memory), ""};
}

}  // namespace kolo::bench
