#include "kolo/mpi_detail.h"

#include <string>

#include "kolo/init.h"
#include "kolo/timeline.h"
#include "torch_ops/session/session.hpp"

namespace kolo {
namespace {

// Starts a timeline if the settings ask for it. If that fails, there is no session either.
void start_timeline_if_asked() {
  const std::string folder = session("init")->config().timeline;
  if (folder.empty()) return;
  try {
    start_timeline(folder);
  } catch (...) {
    shutdown();
    throw;
  }
}

void init_on(MpiParent parent) {
  if (make_session(parent)) start_timeline_if_asked();
}

}  // namespace

void init() {
  init_on(MpiParent{});
}

void detail::init_on(const void* mpi_comm) {
  kolo::init_on(MpiParent{mpi_comm});
}

}  // namespace kolo
