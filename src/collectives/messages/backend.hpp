// Collectives as algorithms over messages.
#pragma once

#include <memory>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/backend.hpp"

namespace kolo {

// Tags from `first_tag` on are the backend's; collectives take them in turn.
std::unique_ptr<Backend> make_message_backend(Transport& transport, Tag first_tag,
                                              const Tuning& tuning);

}  // namespace kolo
