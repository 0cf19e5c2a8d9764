// The current session, and the exit paths of a process.
#include "kolo/init.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "collectives/mpi/runtime.hpp"
#include "core/launched.hpp"
#include "core/log.hpp"
#include "core/thread_annotations.hpp"
#include "kolo/error.h"
#include "torch_ops/session/arena.hpp"
#include "torch_ops/session/bootstrap.hpp"
#include "torch_ops/session/session.hpp"

namespace kolo {
namespace {

Mutex session_mutex;
std::shared_ptr<Session> current KOLO_GUARDED_BY(session_mutex);
bool one_has_failed KOLO_GUARDED_BY(session_mutex) = false;
std::atomic<int> forked_from{-1};  // the parent's rank, in a process forked from a rank

// A forked child has no engine. It gets no session, and sees its parent's tensors without changing
// them. It leaves alone what it must not end, such as MPI.
void before_fork() KOLO_NO_THREAD_SAFETY_ANALYSIS {
  session_mutex.lock();
  if (shm::Arena* arena = existing_arena()) arena->before_fork();
}

void after_fork_in_parent() KOLO_NO_THREAD_SAFETY_ANALYSIS {
  if (shm::Arena* arena = existing_arena()) arena->after_fork_in_parent();
  session_mutex.unlock();
}

void after_fork_in_child() KOLO_NO_THREAD_SAFETY_ANALYSIS {
  shm::Arena* const arena = existing_arena();
  if (arena != nullptr && !arena->after_fork_in_child()) {
    static constexpr char kWhy[] = "kolo error: fork(): the child cannot have tensors of its own\n";
    const ssize_t written = write(STDERR_FILENO, kWhy, sizeof kWhy - 1);
    _exit(written > 0 ? 70 : 71);
  }
  if (current != nullptr) {
    forked_from = current->topology().rank;
    current->leave_to_parent();
    // The session's destructor would wait for a thread that does not exist here.
    new std::shared_ptr<Session>(std::move(current));
  }
  current = nullptr;
  one_has_failed = true;
  session_mutex.unlock();
}

bool has_failed() {
  const MutexLock lock(session_mutex);
  return one_has_failed;
}

// After a failure MPI_Finalize could wait forever for a lost peer, so it is not called. The
// launcher then takes the process for a failed one, which it is.
void at_exit() {
  shutdown();
  if (!has_failed()) finalize_mpi();
}

// Ends the engine first, because it uses MPI.
void at_finalize() {
  if (!is_initialized()) return;
  log::warning(
      "MPI_Finalize() was called before kolo::shutdown(), so kolo shuts down now; call "
      "kolo::shutdown() first");
  shutdown();
}

}  // namespace

bool make_session(MpiParent parent) {
  MutexLock lock(session_mutex);
  if (current) return false;
  throw_if_error(start_mpi());
  static const Status hooked = call_at_finalize(at_finalize);
  if (!hooked.is_ok()) log::warning(hooked.message());
  static const int registered = std::atexit(at_exit);
  if (registered != 0) log::warning("atexit failed: call kolo::shutdown() before the program ends");
  static const int forks = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (forks != 0)
    log::warning("pthread_atfork failed: child processes share tensors with their parent");
  std::shared_ptr<Session> made;
  const Status status = start_session(parent, made);
  if (status.code() == StatusCode::kInternal || status.code() == StatusCode::kPeerLost)
    one_has_failed = true;
  if (status.code() == StatusCode::kPeerLost) tell_of_lost_peer();
  throw_if_error(status);
  current = std::move(made);
  return true;
}

std::shared_ptr<Session> session(const char* call) {
  MutexLock lock(session_mutex);
  if (current) return current;
  if (is_fork_of_rank()) {
    throw NotInitializedError(std::string("kolo::") + call +
                              "(): this process was forked from rank " +
                              std::to_string(forked_from.load()) +
                              ", and a fork has no engine: only the rank itself takes part in the "
                              "job. A fork may train by itself, without kolo's operations");
  }
  throw NotInitializedError(std::string("kolo::") + call +
                            "() needs kolo::init() first (or came after kolo::shutdown())");
}

std::shared_ptr<Session> session_or_null() {
  MutexLock lock(session_mutex);
  return current;
}

bool is_fork_of_rank() {
  return forked_from >= 0;
}

void shutdown() {
  std::shared_ptr<Session> ending;
  {
    MutexLock lock(session_mutex);
    ending = std::move(current);
    current = nullptr;
  }
  if (ending) put_tensors_elsewhere();
  // Handles and concurrent calls in other threads may still refer to the session; they find its
  // engine closed.
  if (!ending || ending->shut_down()) return;
  const MutexLock lock(session_mutex);
  one_has_failed = true;
}

bool is_initialized() {
  return session_or_null() != nullptr;
}

int rank() {
  return session("rank")->rank();
}
int size() {
  return session("size")->size();
}
int local_rank() {
  return session("local_rank")->topology().local_rank;
}
int local_size() {
  return session("local_size")->topology().local_size;
}
int cross_rank() {
  return session("cross_rank")->topology().cross_rank;
}
int cross_size() {
  return session("cross_size")->topology().cross_size;
}
bool is_homogeneous() {
  return session("is_homogeneous")->topology().is_homogeneous;
}

}  // namespace kolo
