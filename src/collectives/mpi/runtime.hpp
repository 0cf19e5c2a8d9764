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

// Starts MPI unless the application has, and checks that it is the launcher's MPI. Only
// finalize_mpi() ends an MPI that kolo started, because MPI cannot be started twice in a process
// but kolo can.
Status start_mpi();

// Checks MPI's thread level. The engine calls MPI from its own thread, which needs
// MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED if the application itself calls no MPI until
// kolo has shut down.
Status check_thread_level();

// Calls `end` when MPI_Finalize() begins, whoever calls it, and MPI still works: attributes of
// MPI_COMM_SELF are deleted first (MPI 4.0, 11.2.4). Call it once.
Status call_at_finalize(void (*end)());

// Ends MPI if start_mpi() started it and it has not been ended since. Blocks until all processes
// get here. Must not be called after a transport has failed.
void finalize_mpi();

// Finds the place of this process among the others. Collective over `parent`.
Status find_topology(MpiParent parent, Topology& topology);

// Finds the ranks in MPI_COMM_WORLD of the members of `comm`, in its order, and of this process.
// None for MPI_COMM_NULL. Not collective: it waits for nobody.
Status ranks_in_mpi_world(MpiParent comm, std::vector<int>& members, int& own);

// Gathers every rank's number, by rank. Collective over `comm`.
Status gather_number(MpiParent comm, int number, std::vector<int>& numbers);

// Gathers the text of each rank of this node, by local rank. Collective over `parent`.
Status gather_on_node(MpiParent parent, const std::string& text, std::vector<std::string>& texts);

// Replaces the text of every rank by rank 0's. Collective over `parent`.
Status share_text(MpiParent parent, std::string& text);

// Gathers every rank's text, by rank. Collective over `parent`. If all texts are empty, it costs
// one number per rank.
Status gather_texts(MpiParent parent, const std::string& text, std::vector<std::string>& texts);

// Makes one rank's failure the failure of all, so that no rank waits for a failed one. Ranks
// without a failure of their own get an error that names the failed ranks and their reasons.
// Collective over `parent`.
Status agree(MpiParent parent, const Status& mine);

// Reads the table in rank 0's file for all ranks, so that all choose alike; the built-in table if
// rank 0's path is empty. If something is wrong with the file, every rank gets the error.
// Collective over `parent`.
Status share_allreduce_table(MpiParent parent, const Topology& topology, const std::string& path,
                             AllreduceTable& table);

// Returns "ADDRESS PORT", at which programs that want to meet at rank 0 can reach this process: the
// loopback address if all ranks are on this host, and a port that is free now.
std::string rendezvous_address(bool all_on_this_host);

// Makes a transport on a communicator of its own. Collective over `parent`. It takes device memory
// if that holds on all ranks: `takes_device_memory` or, without a value, what their MPI reports.
Status make_mpi_transport(MpiParent parent, std::optional<bool> takes_device_memory,
                          std::unique_ptr<Transport>& transport);

}  // namespace kolo
