// A loader process, around the user's program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/loader_place.hpp"

namespace kolo::cli {

// The program that starts a kolo-loader: kolo run, or the launcher that reaches another host.
enum class LoaderParent : std::uint8_t { kKoloRun, kMpirun, kSrun };
// Returns the word for it on kolo-loader's command line.
const char* name_of(LoaderParent parent);

struct LoaderOptions {
  LoaderPlace place;         // without descriptors and memory
  bool is_one_host = false;  // all training ranks are on this host
  LoaderParent parent = LoaderParent::kKoloRun;
  std::vector<std::string> program;
};

// Starts the program, and starts it again if it dies. Returns when standard input ends, or when the
// parent sends a signal that asks for it (except srun, which passes on what Slurm sends to the
// ranks). Returns 0, or 1 if the program cannot serve. The sockets to which training ranks connect
// stay open throughout. Writes to standard output:
//
//   kolo-loader address PORT MACHINE NAME        at once; see delivery::Address
//   kolo-loader ready                            when the program has prepared its samples
//
// The program's output goes to standard error, with "[loader N] " before each line. Throws
// std::system_error.
int run_loader(const LoaderOptions& options);

}  // namespace kolo::cli
