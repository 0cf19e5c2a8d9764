// A job in which one rank misbehaves: faulty_job WHAT RANK.
//   leave     the rank returns from main early        throw     ends by an exception
//   exit      calls exit(3) in the middle             kill      gets SIGKILL in the middle
//   stop      is stopped (SIGSTOP) amid an operation
// The others go on with operations; when one fails they print its message and the time it took to
// come, and exit with 4.
#include <ATen/ATen.h>
#include <kolo/error.h>
#include <kolo/init.h>
#include <kolo/operations.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// The rank is stopped amid operations: it has submitted them, and moves nothing of the last one.
void run_into_stop(bool stop_here) {
  std::vector<at::Tensor> data;
  for (int i = 0; i < 6; ++i) data.push_back(at::ones({4000000}));
  for (int round = 0; round < 4; ++round) {
    std::vector<kolo::Handle> handles;
    for (std::size_t i = 0; i < data.size(); ++i)
      handles.push_back(kolo::allreduce_async_(data[i], std::to_string(i)));
    if (stop_here && round == 3) std::raise(SIGSTOP);
    for (kolo::Handle& handle : handles) handle.wait();
  }
}

void misbehave(const std::string& what) {
  if (what == "exit") std::exit(3);  // NOLINT(concurrency-mt-unsafe): what is tested
  if (what == "kill") std::raise(SIGKILL);
  if (what == "throw") throw std::runtime_error("this rank has a bug");
}

int run(const std::string& what, int who) {
  kolo::init();
  at::Tensor data = at::ones({100000});
  for (int step = 0; step < 3; ++step) kolo::allreduce_(data, "data");
  const auto begin = std::chrono::steady_clock::now();
  if (kolo::rank() == who && what != "stop") {
    misbehave(what);
    return 0;
  }
  try {
    if (what == "stop") run_into_stop(kolo::rank() == who);
    for (int step = 3; step < 1000; ++step) kolo::allreduce_(data, "data");
  } catch (const kolo::Error& error) {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("failed after %.1f s: %s\n", seconds, error.what());
    std::fflush(stdout);  // the launcher may end this process as soon as another one has exited
    return seconds < 10 ? 4 : 5;
  }
  return 6;
}

}  // namespace

int main(int argc, char** argv) {
  return argc == 3 ? run(argv[1], std::atoi(argv[2])) : 2;
}
