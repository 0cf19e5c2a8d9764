#include "data/wait_for_data.hpp"

#include <memory>

#include "timeline/event.hpp"
#include "timeline/tracing.hpp"
#include "torch_ops/session/session.hpp"

namespace kolo::data {

WaitForData::~WaitForData() {
  const std::shared_ptr<Session> session = session_or_null();
  if (session == nullptr) return;
  const Clock::time_point end = Clock::now();
  timeline::Tracing& tracing = session->engine().tracing();
  tracing.meters().waited_for_data(nanoseconds(end) - nanoseconds(begin_));
  if (!tracing.on()) return;
  timeline::ScopeEvent event;
  event.begin = nanoseconds(begin_);
  event.end = nanoseconds(end);
  event.step = tracing.step();
  event.thread = timeline::this_thread();
  event.name = timeline::Name(timeline::kDataWaitScope);
  tracing.add(event);
}

}  // namespace kolo::data
