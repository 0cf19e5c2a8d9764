#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kolo/process_set.h"
#include "torch_ops/session.hpp"

namespace kolo::detail {

struct ProcessSetState {
  std::weak_ptr<Session> session;  // in which it was made
  int id = -1;                     // -1: of a rank without a communicator
  std::vector<int> ranks;
  mutable std::atomic<std::uint64_t> unnamed{0};
};

}  // namespace kolo::detail
