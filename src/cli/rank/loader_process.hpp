// A loader process and what stands around it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/loader_place.hpp"

namespace kolo::cli {

// The program that starts a kolo-loader: kolo run, or the launcher that reaches another host.
enum class LoaderParent : std::uint8_t { kKoloRun, kMpirun, kSrun };
// The word for it on kolo-loader's command line.
const char* name_of(LoaderParent parent);

struct LoaderOptions {
  LoaderPlace place;         // without descriptors and memory
  bool is_one_host = false;  // all training ranks are on this host
  LoaderParent parent = LoaderParent::kKoloRun;
  std::vector<std::string> program;
};

// Starts the program, again if it dies, and returns when standard input ends or its parent sends
// a signal that asks for it (not srun's, which passes on what Slurm sends to the ranks): 0, or 1 if
// the program cannot serve. The sockets that training ranks connect to stay open all the while.
// Writes to standard output:
//
//   kolo-loader address PORT MACHINE NAME        at once; see delivery::Address
//   kolo-loader ready                            when the program has prepared its samples
//
// The program's output goes to standard error, with "[loader N] " before each line. Throws
// std::system_error.
int run_loader(const LoaderOptions& options);

}  // namespace kolo::cli
