// A job in which one rank misbehaves: faulty_job WHAT RANK [SECONDS].
//  - leave: the rank returns from main early
//  - exit: calls exit(3) in the middle
//  - exit-hook: likewise, in a hook of backward()
//  - throw: ends by an exception
//  - kill: gets SIGKILL in the middle
//  - kill-caught: likewise; the others catch what that throws, and return 0
//  - kill-late: gets SIGKILL after all operations, while the others shut kolo down
//  - kill-slow: likewise, and kolo-rank, its parent, is stopped for the next two seconds
//  - uncaught: does not catch an exception of kolo
//  - stop, die: is stopped (SIGSTOP), or killed, during an allreduce
//  - stop-broadcast, die-broadcast: likewise, during a broadcast
//  - stop-cuda, die-cuda: likewise, during an allreduce of CUDA tensors, which the others read
//  - stop-early: is stopped before it submits
//  - sleep: comes SECONDS (4) late
//  - quiet: all ranks do nothing for so long
//  - skip: leaves a tensor out
//  - skip-unhandled: likewise, and no rank catches what that throws in the end
//  - kind: broadcasts what the others reduce
//  - order: waits in another order
//  - reach: its backward() reaches none of an optimizer's parameters, and it does not step
//  - work: all ranks reduce for SECONDS, and nothing is wrong
// The others go on with operations. When one fails, they print its message and how many seconds
// after the fault that was, and exit with 4. The moment of the fault, in seconds since 1970, goes
// to the file that FAULTY_JOB_MOMENT names.
#include <ATen/ATen.h>
#include <kolo/device.h>
#include <kolo/error.h>
#include <kolo/init.h>
#include <kolo/operations.h>
#include <kolo/optimizer.h>
#include <kolo/timeline.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string moment_file() {
  const char* const file = std::getenv("FAULTY_JOB_MOMENT");  // NOLINT(concurrency-mt-unsafe)
  return file == nullptr ? "" : file;
}

// To be called right before the rank does what is wrong.
void note_moment_of_fault() {
  std::ofstream(moment_file()) << std::fixed << now() << std::endl;
}

// Zero where no rank has noted a moment.
double seconds_since_fault() {
  double moment = now();
  std::ifstream(moment_file()) >> moment;
  return now() - moment;
}

// The rank gets the signal amid operations: all ranks have submitted them, the first one has ended,
// and the last one, of ten times its size, has not. Broadcasts come from another rank: a root may
// have given all before it ends.
void end_amid_operations(int signal, int who, bool broadcast, bool on_cuda) {
  const bool here = kolo::rank() == who;
  const int root = who == 0 ? 1 : 0;
  at::TensorOptions options;
  if (on_cuda)
    options = options.device(at::kCUDA, static_cast<c10::DeviceIndex>(kolo::local_device()));
  const std::int64_t few = on_cuda ? 400000 : 4000000;  // a GPU that is none is slow
  std::vector<at::Tensor> data;
  for (int i = 0; i < 6; ++i) data.push_back(at::ones({i < 5 ? few : 10 * few}, options));
  for (int round = 0; round < 40; ++round) {
    std::vector<kolo::Handle> handles;
    for (std::size_t i = 0; i < data.size(); ++i)
      handles.push_back(broadcast ? kolo::broadcast_async_(data[i], root, std::to_string(i))
                                  : kolo::allreduce_async_(data[i], std::to_string(i)));
    handles[0].wait();
    // On a loaded machine this thread may come so late that all is done: then in the next round.
    // (An operation on a device ends when it is enqueued.)
    if (here && round >= 3 && (on_cuda || !handles[4].ready())) {
      note_moment_of_fault();
      std::raise(signal);
    }
    for (kolo::Handle& handle : handles) handle.wait();
    if (on_cuda) data.back().cpu();
  }
}

// In the third step the rank trains something else, and waits for the others there.
void reach_nothing(bool here) {
  const at::Tensor weight = at::ones({1000}).requires_grad_();
  const at::Tensor other = at::ones({1000}).requires_grad_();
  kolo::DistributedOptimizer<torch::optim::SGD> optimizer(
      std::vector<at::Tensor>{weight}, torch::optim::SGDOptions(0.1),
      kolo::DistributedOptimizerOptions().name("net"));
  for (int step = 1; step <= 4; ++step) {
    const bool wrong = here && step == 3;
    optimizer.zero_grad();
    (wrong ? other : weight).sum().backward();
    if (wrong) kolo::barrier("end");
    optimizer.step();
  }
}

// Steps of two tensors. What the rank does wrong it does in the third one.
void stall(const std::string& what, bool here, std::chrono::seconds pause) {
  if (what == "reach") return reach_nothing(here);
  at::Tensor first = at::ones({1000});
  at::Tensor second = at::ones({1000});
  for (int step = 1; step <= 4; ++step) {
    const bool wrong = here && step == 3;
    if (wrong && what == "stop-early") std::raise(SIGSTOP);
    if ((wrong && what == "sleep") || (step == 3 && what == "quiet"))
      std::this_thread::sleep_for(pause);
    const bool swapped = wrong && what == "order";
    if (swapped) kolo::allreduce_(second, "second");
    if (wrong && what == "kind") kolo::broadcast_(first, 0, "first");
    if (!(wrong && what.rfind("skip", 0) == 0)) kolo::allreduce_(first, "first");
    if (!swapped) kolo::allreduce_(second, "second");
    kolo::mark_step();
  }
  std::puts("all steps were made");
}

// What end_amid_operations() does; 0: something else.
int signal_amid_operations(const std::string& what) {
  if (what == "stop" || what == "stop-broadcast" || what == "stop-cuda") return SIGSTOP;
  if (what == "die" || what == "die-broadcast" || what == "die-cuda") return SIGKILL;
  return 0;
}

// A child of its own session, which outlives this process, wakes the parent.
void stop_parent_for(std::chrono::seconds pause) {
  const pid_t parent = getppid();
  if (fork() == 0) {
    setsid();
    std::this_thread::sleep_for(pause);
    _exit(kill(parent, SIGCONT) == 0 ? 0 : 1);
  }
  kill(parent, SIGSTOP);
}

// Always amid an operation.
void work(std::chrono::seconds pause) {
  const auto end = std::chrono::steady_clock::now() + pause;
  at::Tensor data = at::ones({8 << 20});
  at::Tensor is_over = at::zeros({1});
  while (is_over.item<float>() == 0) {
    kolo::allreduce_(data, "data");
    if (kolo::rank() == 0) is_over.fill_(std::chrono::steady_clock::now() < end ? 0 : 1);
    kolo::broadcast_(is_over, 0, "is_over");
  }
  std::puts("all work was done");
}

bool stalls(const std::string& what) {
  return what == "sleep" || what == "quiet" || what == "skip" || what == "order" ||
         what == "stop-early" || what == "kind" || what == "skip-unhandled" || what == "reach";
}

void misbehave(const std::string& what) {
  if (what == "exit") std::exit(3);  // NOLINT(concurrency-mt-unsafe): what is tested
  if (what == "exit-hook") {
    const at::Tensor leaf = at::ones({3}).requires_grad_();
    leaf.register_hook([](const at::Tensor&) { std::exit(3); });  // NOLINT(concurrency-mt-unsafe)
    leaf.sum().backward();
  }
  if (what == "kill" || what == "kill-caught") std::raise(SIGKILL);
  if (what == "uncaught") kolo::broadcast(at::ones({3}), 99, "weights");
  if (what == "throw") throw std::runtime_error("this rank has a bug");
}

int run(const std::string& what, int who, std::chrono::seconds pause) {
  kolo::init();
  at::Tensor data = at::ones({100000});
  for (int step = 0; step < 3; ++step) kolo::allreduce_(data, "data");
  const int signal = signal_amid_operations(what);
  if (what == "work") {
    work(pause);
    return 0;
  }
  if (what == "kill-late" || what == "kill-slow") {
    if (kolo::rank() != who) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (what == "kill-slow") stop_parent_for(std::chrono::seconds(2));
    std::raise(SIGKILL);
  }
  if (kolo::rank() == who && signal == 0 && !stalls(what)) {
    note_moment_of_fault();
    misbehave(what);
    return 0;
  }
  try {
    if (stalls(what)) {
      stall(what, kolo::rank() == who, pause);
      return 0;
    }
    if (signal != 0) {
      end_amid_operations(signal, who, what.find("broadcast") != std::string::npos,
                          what.find("cuda") != std::string::npos);
    }
    for (int step = 3; step < 1000; ++step) kolo::allreduce_(data, "data");
  } catch (const kolo::Error& error) {
    if (what == "skip-unhandled" || what == "uncaught") std::terminate();
    if (what == "kill-caught") return 0;
    std::printf("failed after %.1f s: %s\n", seconds_since_fault(), error.what());
    std::fflush(stdout);  // the launcher may end this process as soon as another one has exited
    return 4;
  }
  return 6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) return 2;
  return run(argv[1], std::atoi(argv[2]), std::chrono::seconds(argc == 4 ? std::atoi(argv[3]) : 4));
}
