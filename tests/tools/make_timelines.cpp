// make_timelines FOLDER RANKS STEPS: timelines of a training as a report's test wants them. Its
// last rank is slow from 60 % of the steps on, and a tensor's name is markup.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "trace_fixture.hpp"

namespace kolo::tools {
namespace {

constexpr int kTensors = 20;

void write(const std::string& folder, int rank, int ranks, int steps) {
  RankTimeline::Settings settings;
  settings.size = ranks;
  settings.host = rank < ranks / 2 ? "node1" : "node2";
  settings.program = "train";
  settings.run = 1'764'107'040'000'000'000;  // 2025-11-25 21:44 UTC
  settings.cores = std::to_string(rank);
  settings.ahead = std::int64_t{rank} * 1'000'000'000;
  RankTimeline timeline(rank, settings);
  std::mt19937 random(11);  // the same on all ranks: what all do together
  std::uniform_real_distribution<double> jitter(0, 0.3);
  double begin = 5;
  std::uint64_t sequence = 0;
  for (int step = 1; step <= steps; ++step) {
    const bool slow = step > steps * 6 / 10;
    const double late = slow ? 4 : 0;
    const double backward = begin + 4 + jitter(random);
    const double ready = backward + (rank == ranks - 1 ? late : 0);
    const double all = backward + late;
    timeline.trace(step, "forward", begin, begin + 4);
    for (int tensor = 0; tensor < kTensors; ++tensor) {
      const double at = 0.2 * tensor;
      timeline.member(step, sequence, 1, "layer" + std::to_string(tensor) + "</script><b>.weight",
                      ready + at, all + at + 0.1);
    }
    const double reduced = all + 0.2 * kTensors;
    timeline.bucket(step, sequence++, 1, kTensors, 1 << 20,
                    {ready + 0.2 * kTensors, reduced, reduced, reduced + 0.5});
    timeline.tensor(step, sequence++, "embedding", 8 << 20,
                    {ready + 2, all + 2, all + 2, reduced + 1.5 + jitter(random)});
    timeline.wait(step, "embedding", ready + 0.2 * kTensors, reduced + 1.5);
    timeline.step(step, begin, reduced + 2);
    begin = reduced + 2;
  }
  timeline.write(folder);
}

}  // namespace
}  // namespace kolo::tools

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "Usage: make_timelines FOLDER RANKS STEPS\n");
    return 2;
  }
  const int ranks = std::atoi(argv[2]);
  for (int rank = 0; rank < ranks; ++rank) {
    kolo::tools::write(argv[1], rank, ranks, std::atoi(argv[3]));
  }
}
