#include "torch_ops/ops/background_set.hpp"

#include <memory>

#include "core/thread_annotations.hpp"

namespace kolo {
namespace {

struct BackgroundSet {
  Mutex mutex;
  ProcessSet set KOLO_GUARDED_BY(mutex);  // the default until it is made
};

}  // namespace

ProcessSet background_set(Session& session) {
  const std::shared_ptr<BackgroundSet> background = session.part<BackgroundSet>();
  {
    const MutexLock lock(background->mutex);
    if (background->set.state()) return background->set;
  }
  ProcessSet made = add_process_set(ProcessSet().ranks());
  const MutexLock lock(background->mutex);
  background->set = made;
  return made;
}

}  // namespace kolo
