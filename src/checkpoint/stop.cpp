#include "kolo/stop.h"

#include <ATen/ATen.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "kolo/error.h"
#include "kolo/operations.h"

namespace kolo {
namespace {

// A signal handler can only use global state.
std::atomic<bool> asked_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_signal(int /*number*/) {
  asked_to_stop.store(true);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;  // waiting system calls restart
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGTERM, SIGUSR1}) {
    if (::sigaction(number, &action, nullptr) != 0) {
      throw InternalError("catch_stop_signals: sigaction failed: " +
                          std::generic_category().message(errno));
    }
  }
}

bool stop_signal_caught() {
  return asked_to_stop.load();
}

bool stop_requested() {
  const at::Tensor asked = at::full({1}, stop_signal_caught() ? 1 : 0, at::kByte);
  allreduce_(asked, AllreduceOptions("kolo.stop").op(ReduceOp::Max));
  return asked.item<std::uint8_t>() != 0;
}

}  // namespace kolo
