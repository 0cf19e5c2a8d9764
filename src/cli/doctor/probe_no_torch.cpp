// The probe in a build without LibTorch.
#include "cli/doctor/probe.hpp"

namespace kolo::cli {

int probe_torch() {
  report("torch.version", "not built in");
  return 0;
}

}  // namespace kolo::cli
