#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kolo/process_set.h"
#include "torch_ops/session/session.hpp"
#include "torch_ops/session/unnamed_names.hpp"

namespace kolo::detail {

struct ProcessSetState {
  std::weak_ptr<Session> session;  // the one that made it
  int id = -1;                     // -1: made on a rank without a communicator
  std::vector<int> ranks;
  mutable UnnamedNames unnamed;
};

}  // namespace kolo::detail
