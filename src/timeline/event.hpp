// Events that are recorded while a job runs. They are copied without allocation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <variant>

#include "core/clock.hpp"
#include "core/operations.hpp"
#include "core/types.hpp"

namespace kolo::timeline {

// The time of something that has not happened.
inline constexpr Nanoseconds kNever = 0;

// A text of at most Capacity bytes. A longer one keeps only its two ends, because these tell names
// of layers apart.
template <std::size_t Capacity>
class ShortText {
 public:
  ShortText() = default;
  explicit ShortText(std::string_view text) { assign(text); }
  ShortText(const ShortText& other) { *this = other; }
  ShortText& operator=(const ShortText& other) {
    if (this == &other) return *this;
    length_ = other.length_;
    std::memcpy(text_, other.text_, length_);
    return *this;
  }
  void assign(std::string_view text) {
    static constexpr std::string_view kGap = "...";
    static constexpr std::size_t kHead = (Capacity - kGap.size()) / 2;
    static constexpr std::size_t kTail = Capacity - kGap.size() - kHead;
    length_ = static_cast<std::uint8_t>(std::min(text.size(), Capacity));
    if (text.size() <= Capacity) {
      std::copy(text.begin(), text.end(), text_);
      return;
    }
    char* const gap = std::copy_n(text.begin(), kHead, text_);
    std::copy_n(text.end() - kTail, kTail, std::copy(kGap.begin(), kGap.end(), gap));
  }
  std::string_view view() const { return {text_, length_}; }

 private:
  static_assert(Capacity < 256);
  std::uint8_t length_ = 0;
  char text_[Capacity];  // only the first length_ bytes are set
};

using Name = ShortText<95>;

enum class State : std::uint8_t {
  kSubmitted = 0,  // here; not on every rank yet
  kAgreed = 1,     // on every rank; waits for its turn
  kStarted = 2,
  kDone = 3,
  kFailed = 4,
};

// One operation, on a tensor or a group of them, or one execution of a bucket. Times that have not
// come yet are kNever.
struct OperationEvent {
  Nanoseconds submitted = kNever;   // here; of a bucket: the last of its members
  Nanoseconds agreed = kNever;      // all ranks agreed that it takes place
  Nanoseconds started = kNever;     // on a device: enqueueing began
  Nanoseconds data_ready = kNever;  // only on a device, as `begun`: the tensors had their values
  Nanoseconds packed = kNever;      // a bucket's members were in its buffer
  Nanoseconds begun = kNever;       // the collective before it had ended
  Nanoseconds reduced = kNever;     // the buffer held the result
  Nanoseconds ended = kNever;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;  // of the decision, in its process set; the same on all ranks
  std::int64_t step = 0;       // of the program, when it was submitted
  std::uint64_t bucket = 0;    // number of the bucket it is or travelled in; 0: alone
  std::uint32_t members = 0;   // of a bucket; 0: a tensor
  std::int32_t process_set = 0;
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  State state = State::kSubmitted;
  Medium medium = Medium::kNone;
  bool transient = false;  // the name will not come again
  bool wanted = false;     // the program waits for it, or has asked whether it is done
  Name name;
};

// Name of the scope in which a program waits for a batch of a DataLoader.
inline constexpr const char* kDataWaitScope = "WAIT_FOR_BATCH";

// A span of a thread's time: a scope of the program's own, a wait, or a training step.
struct ScopeEvent {
  enum class Kind : std::uint8_t { kScope = 0, kWait = 1, kStep = 2 };
  Nanoseconds begin = kNever;
  Nanoseconds end = kNever;
  std::int64_t step = 0;
  std::int32_t thread = 0;  // the kernel's number
  Kind kind = Kind::kScope;
  Name name;  // of a wait: the operation
};

// A rank of the world has submitted an operation, as the coordinator sees it.
struct ArrivalEvent {
  Nanoseconds at = kNever;
  std::int32_t rank = 0;
  std::int32_t process_set = 0;
  std::uint64_t bucket = 0;  // 0: a tensor
  OpKind kind = OpKind::kAllreduce;
  bool transient = false;
  Name name;  // of the tensor
};

// The operations in flight at some time.
struct LoadEvent {
  Nanoseconds at = kNever;
  std::uint64_t bytes = 0;        // in collectives that have started
  std::uint32_t negotiating = 0;  // submitted here, not on all ranks
  std::uint32_t queued = 0;       // agreed upon, not started
  std::uint32_t running = 0;
};

// A reading of this rank's clock against rank 0's.
struct ClockEvent {
  Nanoseconds at = kNever;  // on this rank's clock
  std::int64_t offset = 0;  // rank 0's clock at that moment, less `at`
  std::int64_t error = 0;   // the offset is off by at most this
};

using Event = std::variant<OperationEvent, ScopeEvent, ArrivalEvent, LoadEvent, ClockEvent>;

}  // namespace kolo::timeline
