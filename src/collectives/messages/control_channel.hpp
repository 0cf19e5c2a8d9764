// The control plane's channel over messages.
#pragma once

#include <memory>

#include "collectives/control_channel.hpp"
#include "collectives/transport.hpp"

namespace kolo {

// Tags of the two directions. Collectives use those from kFirstFreeTag on.
constexpr Tag kReportTag = 0;
constexpr Tag kDecisionTag = 1;
constexpr Tag kFirstFreeTag = 2;

std::unique_ptr<ControlChannel> make_message_control_channel(Transport& transport);

}  // namespace kolo
