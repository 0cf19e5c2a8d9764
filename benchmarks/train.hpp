// Training steps of the MNIST network: on all ranks with kolo, and in processes of their own that
// know neither kolo nor each other.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"

namespace kolo::bench {

struct TrainingSize {
  int batch = 64;  // images a rank and step
  int steps = 10;  // a sample
};

// "kolo": the ranks train one model; "kolo-timeline": the same one, and write timelines.
// "kolo-trainer": a Trainer trains such a model in place of the loop. "barrier": they train each
// its own in the same processes, and wait for each other in each step. Then, each rank with a child
// process that is a plain LibTorch program: "single": rank 0 alone; "independent": all at the same
// time, each its own model; "independent-tuned-malloc": the same with a malloc that keeps large
// blocks. `program` is this one, run with child_words(). Throws
// RunFailed.
Contenders training_contenders(Group& group, const TrainingSize& size, const std::string& program);

// What the child processes do: answers lines on standard input until it ends. `words` are those
// that training_contenders() gives.
int train_alone(const std::vector<std::string>& words);

// The benchmark that is none: a child process.
inline constexpr const char* kTrainAlone = "train-alone";

}  // namespace kolo::bench
