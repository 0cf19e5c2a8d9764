// The place of this process among the others. Names as in Horovod.
#pragma once

namespace kolo {

struct Topology {
  int rank = 0;                // 0 to size - 1
  int size = 1;                // all processes
  int local_rank = 0;          // among the processes of this node
  int local_size = 1;          // processes on this node
  int cross_rank = 0;          // which node this is, among nodes that have this local_rank
  int cross_size = 1;          // how many nodes have this local_rank
  bool is_homogeneous = true;  // every node has the same number of processes
  double cores = 1;            // this process's share of the node's, see share_of_node()
};

}  // namespace kolo
