// The messages between training ranks and loaders, and their encoding. docs/delivery.md describes
// the protocol.
//
//   stream    = frame*                           in each direction
//   frame     = head body payload
//   head      = kind:u8 0:u8[3] body:u32 id:u64 payload:u64      24 bytes, little endian: lengths
//   body      = of the kind; number, text and numbers as in core/byte_codec.hpp
// From a training rank; the first frame is hello:
//   hello     = 1 version:number token:text rank:number
//   request   = 2 loader:text epoch:number position:number samples:numbers
//   release   = 3 slots:numbers                  shared memory that the rank no longer uses
//   withdraw  = 4 loader:text                    the rank requests no more of its batches
// From a loader process; the first frame is welcome:
//   welcome   = 5 version:number workers:number count:number
//               (loader:text samples:number transforms:number settings:text){count}
//   batch     = 6 slot:number size:number count:number
//               (type:u8 shape:numbers offset:number){count}
//   error     = 7 message:text
//
// A batch or an error has the id of its request. The arrays of a batch with slot 0 are in the
// payload. With slot n they lie in shared memory, whose file descriptor came with this frame or
// with an earlier frame of the slot. `size` is the number of bytes of that memory or of the
// payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/element_type.hpp"

namespace kolo::delivery {

enum class FrameKind : std::uint8_t {
  kHello = 1,
  kRequest = 2,
  kRelease = 3,
  kWithdraw = 4,
  kWelcome = 5,
  kBatch = 6,
  kError = 7,  // the last one
};

struct FrameHead {
  FrameKind kind = FrameKind::kHello;
  std::uint32_t body = 0;  // bytes
  std::uint64_t id = 0;
  std::uint64_t payload = 0;  // bytes
};
inline constexpr std::size_t kHeadBytes = 24;
inline constexpr std::uint32_t kMostBodyBytes = 64U << 20U;
inline constexpr std::uint64_t kMostPayloadBytes = std::uint64_t{1} << 40U;

using Bytes = std::vector<std::byte>;

Bytes encode(const FrameHead& head);
// Returns std::nullopt if the head is malformed or a length exceeds its limit.
std::optional<FrameHead> decode_head(std::span<const std::byte, kHeadBytes> bytes);

struct Hello {
  std::string token;  // known only to processes of the job
  std::uint32_t rank = 0;
  bool operator==(const Hello&) const = default;
};

struct Request {
  std::string loader;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // of its first sample in the rank's share of the epoch
  std::vector<std::uint64_t> samples;
  bool operator==(const Request&) const = default;
};

struct Release {
  std::vector<std::uint32_t> slots;
  bool operator==(const Release&) const = default;
};

struct Withdraw {
  std::string loader;
  bool operator==(const Withdraw&) const = default;
};

// Describes a registered loader to a training rank.
struct LoaderInfo {
  std::string name;
  std::uint64_t samples = 0;     // of its dataset
  std::uint32_t transforms = 0;  // applied by the loader
  std::string settings;          // of its batches; must be equal in all processes
  bool operator==(const LoaderInfo&) const = default;
};

struct Welcome {
  std::uint32_t workers = 1;  // loading threads
  std::vector<LoaderInfo> loaders;
  bool operator==(const Welcome&) const = default;
};

struct ArrayPlace {
  ElementType type = ElementType::kUint8;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // of its first byte, in the shared memory or the payload
  bool operator==(const ArrayPlace&) const = default;
};

struct BatchPlaces {
  std::uint32_t slot = 0;  // 0: the arrays are in the payload
  std::uint64_t size = 0;  // bytes of the slot's memory or of the payload
  std::vector<ArrayPlace> arrays;
  bool operator==(const BatchPlaces&) const = default;
};

struct Failure {
  std::string message;
  bool operator==(const Failure&) const = default;
};

Bytes encode(const Hello& hello);
Bytes encode(const Request& request);
Bytes encode(const Release& release);
Bytes encode(const Withdraw& withdraw);
Bytes encode(const Welcome& welcome);
Bytes encode(const BatchPlaces& places);
Bytes encode(const Failure& failure);

// Returns std::nullopt if the bytes do not follow the grammar, or a batch's arrays exceed its size.
template <typename Message>
std::optional<Message> decode(std::span<const std::byte> body);

// Returns an array's size in bytes; std::nullopt if the shape is invalid or the size exceeds that
// of a payload.
std::optional<std::uint64_t> bytes_of(const ArrayPlace& array);

}  // namespace kolo::delivery
