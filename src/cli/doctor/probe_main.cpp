// kolo-doctor: the probes that `kolo doctor` runs in a separate process, because they may crash,
// hang or not even load.
#include <cstdlib>
#include <iostream>

#include "cli/doctor/probe.hpp"
#include "core/standard_streams.hpp"

namespace kolo::cli {

void report(const std::string& key, const std::string& value) {
  std::cout << "kolo-doctor: " + key + "=" + value + "\n" << std::flush;
}

}  // namespace kolo::cli

namespace {

int run(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "job") {
    return kolo::cli::probe_job(std::strtod(argv[2], nullptr), argv[3]);
  }
  const std::string part = argc == 2 ? argv[1] : "";
  if (part == "library") return kolo::cli::probe_library();
  if (part == "cuda") return kolo::cli::probe_cuda();
  if (part == "torch") return kolo::cli::probe_torch();
  if (part == "mpi") return kolo::cli::probe_mpi();
  std::cerr << "kolo-doctor is run by 'kolo doctor'\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  kolo::open_standard_streams();
  return kolo::flush_standard_output("kolo doctor", run(argc, argv));
}
