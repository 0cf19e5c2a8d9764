// A program that needs nothing of LibTorch, compiled with what pkg-config says.
#include <kolo/init.h>

#include <cstdio>

int main() {
  kolo::init();
  std::printf("rank %d of %d\n", kolo::rank(), kolo::size());
  kolo::shutdown();
  return 0;
}
