#include "core/launched.hpp"

#include <sys/types.h>

#include <climits>
#include <csignal>
#include <cstdlib>

namespace kolo {

std::optional<LaunchedSize> launched_size(const std::function<const char*(const char*)>& get) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* const text = get(name);
    if (text == nullptr) continue;
    // In the shell of `srun --pty` a program is alone, whatever the number of tasks of the step.
    if (std::string(name) == "SLURM_STEP_NUM_TASKS" && get("SLURM_PTY_PORT") != nullptr) continue;
    char* end = nullptr;
    const long size = std::strtol(text, &end, 10);
    if (end == text || *end != '\0' || size < 1 || size > 100'000'000) continue;
    return LaunchedSize{static_cast<int>(size), name};
  }
  return std::nullopt;
}

void tell_of_lost_peer() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): programs set no variables while operations fail
  const char* const text = std::getenv(kRankProcessVariable);
  if (text == nullptr) return;
  char* end = nullptr;
  const long process = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || process <= 1 || process > INT_MAX) return;
  (void)::kill(static_cast<pid_t>(process), kLostPeerSignal);  // gone: nobody needs the signal
}

}  // namespace kolo
