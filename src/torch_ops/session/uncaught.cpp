#include "torch_ops/session/uncaught.hpp"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>

#include "core/log.hpp"
#include "kolo/error.h"

namespace kolo {
namespace {

std::atomic<std::terminate_handler> previous_handler{nullptr};
std::atomic<bool> backtrace{false};

void end_with_message(const Error& error) {
  log::error("uncaught exception: " + std::string(error.what()) +
             " (KOLO_BACKTRACE=1 shows where it was thrown)");
  std::_Exit(EXIT_FAILURE);  // destructors and exit handlers would wait for other threads and ranks
}

[[noreturn]] void on_terminate() {
  const std::exception_ptr thrown = std::current_exception();
  if (thrown != nullptr && !backtrace) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      end_with_message(error);
    } catch (...) {  // not kolo's
    }
  }
  if (const std::terminate_handler handler = previous_handler) handler();
  std::abort();
}

}  // namespace

void report_uncaught_errors(bool with_backtrace) {
  backtrace = with_backtrace;
  // Installed only once: a handler that another library has set since may call this one.
  static std::once_flag installed;
  std::call_once(installed, [] { previous_handler = std::set_terminate(on_terminate); });
}

}  // namespace kolo
