#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <exception>
#include <iostream>

#include "cli/doctor/probe.hpp"

namespace kolo::cli {

int probe_torch() {
  try {
    report("torch.version", TORCH_VERSION);
    report("torch.cpu_capability", at::get_cpu_capability());
    report("torch.threads", std::to_string(at::get_num_threads()));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace kolo::cli
