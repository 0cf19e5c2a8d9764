// Where the ranks of a fake NCCL communicator meet: threads of the process that made its id. Each
// rank has a connection, over which it asks for one thing after the other.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace fake_gpu {

enum class Kind : std::uint32_t {
  kAllreduce,
  kReduce,
  kBroadcast,
  kAllgather,
  kReducescatter,
  kSend,
  kReceive,
};

// Then come `bytes` of data, but to receive.
struct Request {
  Kind kind = Kind::kAllreduce;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  std::int32_t peer = 0;    // root, or with whom
  std::uint64_t bytes = 0;  // of the rank's data
};

// Then come `bytes` of data, unless a rank is gone, or ranks asked for different things. Of a send
// there is no reply.
struct Reply {
  enum class State : std::uint32_t { kWell, kLost, kDifferent };
  State state = State::kWell;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;
};

// A rank's first words; a byte comes back when all ranks are there.
struct Hello {
  std::int32_t rank = 0;
  std::int32_t size = 0;
};

// The name of a new one, which waits for its ranks.
std::string open_hub();
// -1 if it is gone.
int connect_to_hub(const std::string& name);

// Whole, or false.
bool read_all(int socket, void* data, std::size_t bytes);
bool write_all(int socket, const void* data, std::size_t bytes);

std::size_t size_of_type(ncclDataType_t type);

}  // namespace fake_gpu
