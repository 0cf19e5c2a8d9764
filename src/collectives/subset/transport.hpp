// A view of another transport for some of its ranks: how process sets share one communicator. Needs
// no messages to be made.
#pragma once

#include <memory>
#include <vector>

#include "collectives/transport.hpp"

namespace kolo {

// The number of views with tags of their own that a transport can have at once.
int subset_slots(const Transport& parent);

// The view for `ranks` of the parent (in the order of the new ranks; this process' own among them).
// Every member makes it with the same ranks and the same slot, from 0 to subset_slots() - 1, that
// no other view in use has. The parent outlives it.
std::unique_ptr<Transport> make_subset_transport(Transport& parent, std::vector<int> ranks,
                                                 int slot);

// A view with the parent's own tags: what uses a tag here and there at the same time must not be
// between the same two ranks.
std::unique_ptr<Transport> make_subset_transport(Transport& parent, std::vector<int> ranks);

}  // namespace kolo
