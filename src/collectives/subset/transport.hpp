// A view of another transport for some of its ranks. Process sets share one communicator in this
// way. Making a view needs no messages.
#pragma once

#include <memory>
#include <vector>

#include "collectives/transport.hpp"

namespace kolo {

// Returns the number of views with tags of their own that a transport can have at once.
int subset_slots(const Transport& parent);

// Makes the view for `ranks` of the parent (in the order of the new ranks; this process's own among
// them). Every member makes it with the same ranks and the same slot, from 0 to subset_slots() - 1,
// which no other view in use has. The parent outlives the view.
std::unique_ptr<Transport> make_subset_transport(Transport& parent, std::vector<int> ranks,
                                                 int slot);

// Makes a view with the parent's own tags. A tag must not be in use between the same two ranks in
// both at the same time.
std::unique_ptr<Transport> make_subset_transport(Transport& parent, std::vector<int> ranks);

}  // namespace kolo
