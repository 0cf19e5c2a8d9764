// The messages of the control plane and their bytes. docs/protocol.md describes the protocol.
//
//   message   = record*                         one report or one list of decisions
//   record    = kind:u8 body        number, text, numbers and real: see core/byte_codec.hpp
//
// Reports, from a rank to the coordinator:
//   announce  = 1 name:text descriptor flags:u8 (1 absent, 2 transient, 4 again)
//   ready     = 2 entry:number absent:numbers   of a tensor or a bucket; absent: positions in it
//   flush     = 3 bucket:number
//   boundary  = 4 count:number (tensor:number execution:number){count} evict:numbers
//   leave     = 5
//   abort     = 6 message:text
//   join      = 7
//   measures  = 8 numbers                       in the order of to_numbers()
//   descriptor = kind:u8 op:u8 device:u8 root:number destination:number prescale:real
//                postscale:real content:text refusal:text
//                count:number (dtype:u8 shape:numbers name:text element:text order:numbers){count}
// Decisions, from the coordinator to every rank, in one order:
//   assign    = 1 id:number name:text descriptor transient:u8
//   bucket    = 2 id:number count:number (tensor:number base:number){count}
//   execute   = 3 entry:number absent:numbers   absent: positions that no rank has values for
//   fail      = 4 name_space:u8 name:text code:u8 message:text
//                 without:numbers               ranks that have not come yet
//   dissolve  = 5 bucket:number
//   evict     = 6 tensor:number
//   bye       = 7
//   abort     = 8 message:text
//   joined    = 9 last_rank:number error:text   not all ranks can join, if there is an error
//   stalled   = 10 text
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/descriptor.hpp"
#include "core/operations.hpp"
#include "core/status.hpp"

namespace kolo {

// Tensors and buckets share one space of numbers, which are never used again.
using EntryId = std::uint64_t;

// Names are unique within a name space. A name that the program gives belongs to a kind of
// operation. kolo numbers unnamed calls across all kinds, so ranks that make different calls use
// the same name and get an error. Sends are numbered separately for each pair of ranks.
using NameSpace = std::size_t;
inline constexpr NameSpace kUnnamed = kOpKindCount;
inline constexpr std::size_t kNameSpaces = kUnnamed + 1;

inline NameSpace name_space_of(const Descriptor& descriptor, bool transient) {
  return transient && !descriptor.is_between_two() ? kUnnamed
                                                   : static_cast<NameSpace>(descriptor.kind);
}

namespace wire {

// --- reports ---
struct Announce {  // a tensor whose number this rank does not know is ready
  std::string name;
  Descriptor descriptor;
  bool absent = false;     // this rank has no values and gives zeros
  bool transient = false;  // the name will not come again; do not cache it
  bool again = false;      // instead of a Ready, whose number has been evicted meanwhile
  bool operator==(const Announce&) const = default;
};
struct Ready {  // all tensors of the entry are ready
  EntryId entry = 0;
  std::vector<std::uint32_t> absent;
  bool operator==(const Ready&) const = default;
};
struct Flush {  // this rank no longer reports the bucket, because a thread waits for a member while
                // the bucket is not full, or the coordinator has dissolved it; sent once per bucket
  EntryId bucket = 0;
  bool operator==(const Flush&) const = default;
};
struct Submitted {
  EntryId tensor = 0;
  std::uint64_t execution = 0;  // which one of the tensor, counted since its number was given
  bool operator==(const Submitted&) const = default;
};
struct Boundary {  // rank 0: a thread began to wait
  // Submissions by number since the last boundary, in the program's order, outside of buckets.
  std::vector<Submitted> together;
  std::vector<EntryId> evict;  // least recently used tensors
  bool operator==(const Boundary&) const = default;
};
struct Leave {  // the rank submits no further operations
  bool operator==(const Leave&) const = default;
};
struct Abort {  // a peer is lost; the sender has failed all its operations (also a decision)
  std::string message;
  bool operator==(const Abort&) const = default;
};
struct Join {  // the rank submits no tensors until all ranks have joined
  bool operator==(const Join&) const = default;
};
struct Measures {  // the counters of the rank, for rank 0 to serve
  std::vector<std::uint64_t> numbers;
  bool operator==(const Measures&) const = default;
};
using ReportRecord = std::variant<Announce, Ready, Flush, Boundary, Leave, Abort, Join, Measures>;
using Report = std::vector<ReportRecord>;

// --- decisions ---
struct Assign {
  EntryId id = 0;
  std::string name;
  Descriptor descriptor;  // for ranks that have joined and do not know it
  bool transient = false;
  bool operator==(const Assign&) const = default;
};
struct BucketMember {
  EntryId tensor = 0;
  std::uint64_t base = 0;  // the bucket holds for executions of the tensor from this one on
  bool operator==(const BucketMember&) const = default;
};
struct Bucket {
  EntryId id = 0;
  std::vector<BucketMember> members;
  bool operator==(const Bucket&) const = default;
};
struct Execute {
  EntryId entry = 0;
  std::vector<std::uint32_t> absent;
  bool operator==(const Execute&) const = default;
};
struct Fail {
  NameSpace name_space = 0;
  std::string name;
  StatusCode code = StatusCode::kInternal;
  std::string message;
  // Ranks that had not reported it. A submission of theirs counts for the next execution.
  std::vector<std::uint32_t> without = {};
  bool operator==(const Fail&) const = default;
};
struct Dissolve {
  EntryId bucket = 0;
  bool operator==(const Dissolve&) const = default;
};
struct Evict {
  EntryId tensor = 0;
  bool operator==(const Evict&) const = default;
};
struct Bye {  // all ranks have left
  bool operator==(const Bye&) const = default;
};
struct Joined {  // all ranks have joined, or some no longer can; joined ranks continue
  int last_rank = 0;
  std::string error;
  bool operator==(const Joined&) const = default;
};
struct Stalled {  // a stall was found: every rank writes its flight record
  std::string text;
  bool operator==(const Stalled&) const = default;
};
using DecisionRecord =
    std::variant<Assign, Bucket, Execute, Fail, Dissolve, Evict, Bye, Abort, Joined, Stalled>;
using Decisions = std::vector<DecisionRecord>;

std::vector<std::byte> encode(const Report& report);
std::vector<std::byte> encode(const Decisions& decisions);

// Decodes bytes from another rank. Anything but a whole, valid message is an error.
Status decode(const std::vector<std::byte>& bytes, Report& report);
Status decode(const std::vector<std::byte>& bytes, Decisions& decisions);

}  // namespace wire
}  // namespace kolo
