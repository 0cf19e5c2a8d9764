#include "kolo/device.h"
#include "torch_ops/session/session.hpp"

namespace kolo {

int local_device() {
  int index = 0;
  throw_if_error(session("local_device")->device().choose(index));
  return index;
}

}  // namespace kolo
