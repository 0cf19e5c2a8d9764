// What a rank knows of its place: one line, which does not depend on what started it.
#include <kolo/init.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

int main() {
  kolo::init();
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const char* threads = std::getenv("OMP_NUM_THREADS");
  const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
  std::printf("rank %d of %d, %d of %d on %s, node %d of %d, %s threads, devices %s\n",
              kolo::rank(), kolo::size(), kolo::local_rank(), kolo::local_size(), host.data(),
              kolo::cross_rank(), kolo::cross_size(), threads == nullptr ? "any" : threads,
              devices == nullptr ? "none" : devices);
  kolo::shutdown();
  return 0;
}
