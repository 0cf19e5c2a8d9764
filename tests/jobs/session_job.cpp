// How kolo begins and ends: session_job WHAT.
//   reduce        an allreduce, and an end as it should be
//   finalize      the program starts MPI and ends it, and does not call kolo::shutdown()
//   finalize-first  likewise, and calls kolo::shutdown() after MPI_Finalize()
//   stopped       rank 1 is stopped for good (SIGSTOP) before it shuts kolo down
//   fork          rank 0 forks after a step of training; the child trains by itself
//   fork-sum      likewise, with ReduceOp::Sum and half the rate
//   sets COUNT    COUNT process sets, one after the other, of which the first and last reduce
// Prints what came out; exits with 3 if a sum is wrong.
#include <ATen/ATen.h>
#include <kolo/error.h>
#include <kolo/init.h>
#include <kolo/mpi.h>
#include <kolo/operations.h>
#include <kolo/optimizer.h>
#include <kolo/process_set.h>
#include <sys/wait.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

namespace {

// The sum over ranks of rank + 1, in so many elements.
bool reduces_well(std::int64_t elements, const kolo::ProcessSet& set = {}) {
  const at::Tensor sum =
      kolo::allreduce(at::full({elements}, kolo::rank() + 1, at::kInt),
                      kolo::AllreduceOptions("x").op(kolo::ReduceOp::Sum).process_set(set));
  return sum.eq(kolo::size() * (kolo::size() + 1) / 2).all().item<bool>();
}

int use_sets(int count) {
  std::vector<int> all(static_cast<std::size_t>(kolo::size()));
  std::iota(all.begin(), all.end(), 0);
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const kolo::ProcessSet set = kolo::add_process_set(all);
    if (i < 20 || i >= count - 100) {
      for (const std::int64_t elements : {100, 5000}) wrong += reduces_well(elements, set) ? 0 : 1;
    }
    kolo::remove_process_set(set);
  }
  std::printf("%d sums are wrong\n", wrong);
  return wrong == 0 ? 0 : 3;
}

// Gradients of the child are its own: (weight - 1)^2 has the gradient 2 (weight - 1).
int train_and_fork(kolo::ReduceOp op, double rate) {
  at::Tensor weight = at::zeros({4}).requires_grad_();
  kolo::DistributedOptimizer<torch::optim::SGD> optimizer(
      std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(rate),
      kolo::DistributedOptimizerOptions().op(op));
  const auto step = [&] {
    optimizer.zero_grad();
    (weight - 1).square().sum().backward();
    optimizer.step();
  };
  step();
  int result = 0;
  if (kolo::rank() == 0) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      step();
      std::printf("child: weight %g\n", weight[0].item<double>());
      try {
        kolo::barrier();
      } catch (const kolo::NotInitializedError& error) {
        std::printf("child: %s\n", error.what());
      }
      std::fflush(stdout);
      _exit(0);
    }
    waitpid(child, &result, 0);
  }
  step();
  std::printf("rank: weight %g\n", weight[0].item<double>());
  return result;
}

int finalize(bool shuts_down) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  kolo::init(MPI_COMM_WORLD);
  const bool well = reduces_well(3);
  std::printf("work done\n");
  MPI_Finalize();
  if (shuts_down) kolo::shutdown();
  return well ? 0 : 3;
}

int work(const std::string& what, int count) {
  kolo::init();
  if (what == "sets") return use_sets(count);
  if (what == "fork") return train_and_fork(kolo::ReduceOp::Average, 0.25);
  if (what == "fork-sum") return train_and_fork(kolo::ReduceOp::Sum, 0.125);
  const bool well = reduces_well(3);
  if (what == "stopped") {
    kolo::barrier();
    if (kolo::rank() == 1) std::raise(SIGSTOP);
    kolo::shutdown();
  }
  std::printf("work done\n");
  return well ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "reduce";
  try {
    if (what.rfind("finalize", 0) == 0) return finalize(what == "finalize-first");
    return work(what, argc > 2 ? std::atoi(argv[2]) : 0);
  } catch (const kolo::Error& error) {
    std::printf("error: %s\n", error.what());
    return 4;
  }
}
