// In place of device.cpp in a build without CUDA.
#include "benchmarks/benchmarks.hpp"

namespace kolo::bench {

void bench_device(Group& /*group*/, const Options& /*options*/, const Publish& /*publish*/) {
  throw RunFailed("this kolo was built without CUDA; build it with KOLO_CUDA=ON");
}

}  // namespace kolo::bench
