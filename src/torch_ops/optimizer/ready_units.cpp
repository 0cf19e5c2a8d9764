#include "torch_ops/optimizer/ready_units.hpp"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "torch_ops/session/session.hpp"

namespace kolo::detail {
namespace {

// Units on the host are sent when they have this many bytes; on a device, this fraction of a
// bucket.
constexpr std::size_t kEnoughOnHost = std::size_t{64} << 10;
constexpr std::int64_t kPartOfBucket = 8;

}  // namespace

// Where a unit's gradients were computed, and how many bytes of them are sent together.
struct ReadyUnits::Source {
  std::optional<c10::Stream> stream;
  std::size_t enough = 0;  // 0: the unit is sent at once
};

// Errors, such as a unit on several devices, are reported when the unit is sent.
ReadyUnits::Source ReadyUnits::source_of(std::size_t unit) const {
  const std::vector<std::size_t>& members = table_.units()[unit].members;
  const at::Device device = table_[members[0]].tensor.device();
  const bool is_usual = std::all_of(members.begin(), members.end(), [&](std::size_t member) {
    return table_[member].tensor.device() == device && table_[member].layout != Layout::kSparse;
  });
  if (!is_usual) return {};
  if (device.is_cpu()) return {std::nullopt, kEnoughOnHost};
  const auto running = session_or_null();
  if (running == nullptr) return {};
  const auto stream = running->device().open_stream(device.index());
  if (!stream) return {};
  return {stream,
          static_cast<std::size_t>(running->config().cuda_fusion_threshold_bytes / kPartOfBucket)};
}

void ReadyUnits::add(std::size_t unit, const Send& send) {
  const Source source = source_of(unit);
  if (source.stream != stream_) flush(send);
  stream_ = source.stream;
  units_.push_back(unit);
  for (const std::size_t member : table_.units()[unit].members)
    bytes_ += table_[member].tensor.nbytes();
  if (bytes_ >= source.enough) flush(send);
}

void ReadyUnits::flush(const Send& send) {
  bytes_ = 0;
  const std::vector<std::size_t> units = std::exchange(units_, {});
  if (units.empty()) return;
  const c10::OptionalStreamGuard guard(stream_);
  send(units);
}

void ReadyUnits::forget() {
  units_.clear();
  bytes_ = 0;
}

}  // namespace kolo::detail
