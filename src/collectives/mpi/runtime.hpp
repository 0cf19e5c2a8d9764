// MPI itself: started by kolo or by the application, with the thread level that the engine needs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/algorithms/table.hpp"
#include "collectives/mpi/parent.hpp"
#include "collectives/transport.hpp"
#include "core/status.hpp"
#include "core/topology.hpp"

namespace kolo {

// Starts MPI unless the application has, and checks that it is the launcher's. MPI that kolo
// started is ended by finalize_mpi() alone, because MPI cannot be started twice in a process but
// kolo can.
Status start_mpi();

// Checks MPI's thread level. The engine calls MPI from its own thread, which needs
// MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED if the application itself calls no MPI meanwhile.
Status check_thread_level();

// Calls `end` when MPI_Finalize() begins, whoever calls it, and MPI still works: attributes of
// MPI_COMM_SELF are deleted first (MPI 4.0, 11.2.4). Call it once.
Status call_at_finalize(void (*end)());

// Ends MPI if start_mpi() started it and nobody ended it since. Blocks until all processes are
// here; not to be called after a transport has failed.
void finalize_mpi();

// Collective over `parent`. Where this process stands.
Status find_topology(MpiParent parent, Topology& topology);

// Collective over `comm`: every rank's number, in the order of its ranks. None for MPI_COMM_NULL.
Status gather_number(MpiParent comm, int number, std::vector<int>& numbers);

// Collective over `parent`: the text of each rank of this node, in the order of their local ranks.
Status gather_on_node(MpiParent parent, const std::string& text, std::vector<std::string>& texts);

// Collective over `parent`: rank 0's text replaces the others'.
Status share_text(MpiParent parent, std::string& text);

// Collective over `parent`: every rank's text, by rank. Where all are empty it costs one number a
// rank.
Status gather_texts(MpiParent parent, const std::string& text, std::vector<std::string>& texts);

// Collective over `parent`: makes one rank's failure the failure of all, so that nobody waits for
// that rank. The ranks that are well get an error that names those that are not, and why.
Status agree(MpiParent parent, const Status& mine);

// Collective over `parent`: the table in rank 0's file, so that all ranks choose alike; the
// built-in one where rank 0 has an empty path. What is wrong with the file is every rank's error.
Status share_allreduce_table(MpiParent parent, const Topology& topology, const std::string& path,
                             AllreduceTable& table);

// "ADDRESS PORT" under which this process can be reached by programs that want to meet at rank 0:
// the loopback address if all ranks are on this host, and a port that is free now.
std::string rendezvous_address(bool all_on_this_host);

// Collective over `parent`: a transport on a communicator of its own. It takes device memory if all
// ranks say so: `takes_device_memory`, or where that is not known, their MPI.
Status make_mpi_transport(MpiParent parent, std::optional<bool> takes_device_memory,
                          std::unique_ptr<Transport>& transport);

}  // namespace kolo
