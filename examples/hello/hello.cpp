// The smallest program: every rank says who it is.
//   kolo run -np 2 build/release/bin/hello
#include <kolo/init.h>

#include <iostream>
#include <string>

int main() {
  kolo::init();
  // One write, so that lines of several ranks do not mix.
  std::cout << "Hello from: " + std::to_string(kolo::rank()) + "\n" << std::flush;
  kolo::shutdown();
  return 0;
}
