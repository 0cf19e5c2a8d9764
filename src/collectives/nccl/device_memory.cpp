#include "collectives/nccl/device_memory.hpp"

#include <nccl.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "collectives/nccl/check.hpp"
#include "collectives/nccl/kernels.hpp"
#include "collectives/nccl/timing.hpp"
#include "core/log.hpp"

namespace kolo::nccl {
namespace {

struct Freed {
  int device;
  bool plain;  // from cudaMalloc()
  void operator()(std::byte* data) const {
    const OnDevice here(device);
    const Status status = plain ? cuda_status(cudaFree(data), "cudaFree")
                                : nccl_status(ncclMemFree(data), "ncclMemFree");
    if (!status.is_ok()) log::debug(status.message());  // also fails when the process ends
  }
};

}  // namespace

Status DeviceMemory::put(std::span<const Piece> pieces, DType dtype, ReduceOp op, double factor) {
  const OnDevice here(streams_->device());
  if (!here.status().is_ok()) return here.status();
  const bool scales = factor != 1.0 && dtype != DType::kBool;
  std::vector<Transfer> moves;  // copies without conversion, and fills
  std::map<DType, std::vector<Transfer>> converted;
  for (const Piece& piece : pieces) {
    const Transfer transfer{piece.at, piece.from, piece.bytes / size_of(dtype)};
    if (piece.from != nullptr && (scales || piece.outside)) {
      converted[piece.outside.value_or(dtype)].push_back(transfer);
    } else if (piece.from != piece.at) {
      moves.push_back(transfer);
    }
  }
  if (!pieces.empty()) {
    if (const auto last = unpacked_.extract(pieces.front().at)) {
      if (Status s = wait_for(streams_->packing(), *last.mapped()); !s.is_ok()) return s;
    }
  }
  Status status;
  if (!moves.empty())
    status = enqueue_moves(moves, dtype, identity_pattern(dtype, op), streams_->packing());
  for (const auto& [from, transfers] : converted) {
    if (status.is_ok())
      status = enqueue_conversion(transfers, from, dtype, factor, streams_->packing());
  }
  return status.is_ok() ? streams_->mark(&WorkSpan::packed, streams_->packing()) : status;
}

Status DeviceMemory::take(std::span<const Piece> pieces, DType dtype) {
  const OnDevice here(streams_->device());
  if (!here.status().is_ok()) return here.status();
  if (Status s = streams_->mark(&WorkSpan::reduced, streams_->reducing()); !s.is_ok()) return s;
  std::vector<Transfer> moves;
  std::map<DType, std::vector<Transfer>> converted;
  for (const Piece& piece : pieces) {
    if (piece.to == nullptr || piece.to == piece.at) continue;
    const Transfer transfer{piece.to, piece.at, piece.bytes / size_of(dtype)};
    if (piece.outside) {
      converted[*piece.outside].push_back(transfer);
    } else {
      moves.push_back(transfer);
    }
  }
  if (moves.empty() && converted.empty()) return Status::ok();
  Status status;
  if (!moves.empty()) status = enqueue_moves(moves, dtype, {}, streams_->reducing());
  for (const auto& [to, transfers] : converted) {
    if (status.is_ok()) status = enqueue_conversion(transfers, dtype, to, 1, streams_->reducing());
  }
  // A single piece lies in memory of its operation, which is kept long enough.
  if (!status.is_ok() || pieces.size() == 1) return status;
  return streams_->events()->record(streams_->reducing(), unpacked_[pieces.front().at]);
}

Status DeviceMemory::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return Status::ok();
  const OnDevice here(streams_->device());
  if (!here.status().is_ok()) return here.status();
  if (Status s = streams_->join(); !s.is_ok()) return s;
  return cuda_status(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, streams_->reducing()),
      "cudaMemcpyAsync");
}

std::shared_ptr<std::byte[]> DeviceMemory::allocate(std::size_t bytes) {
  const OnDevice here(streams_->device());
  throw_if_error(here.status());
  bytes = std::max<std::size_t>(bytes, 1);
  void* data = nullptr;
  Status status = get(data, bytes);
  if (!status.is_ok() && free_kept_) {
    free_kept_();
    status = get(data, bytes);
  }
  // A driver may refuse what ncclMemAlloc() asks for, such as handles for other nodes. NCCL falls
  // back only for some of the driver's answers, and does not report that memory is not the problem.
  if (!status.is_ok() && !std::exchange(plain_, true)) {
    const Status plain = get(data, bytes);
    plain_ = plain.is_ok();
    if (plain_) log::warning(status.message() + ": buckets lie in memory of cudaMalloc instead");
    if (plain_) status = plain;
  }
  if (!status.is_ok()) throw_if_error(Status::internal(status.message() + "; " + kFullMemory));
  return {static_cast<std::byte*>(data), Freed{streams_->device(), plain_}};
}

Status DeviceMemory::get(void*& data, std::size_t bytes) const {
  const std::string what =
      (plain_ ? "cudaMalloc of " : "ncclMemAlloc of ") + std::to_string(bytes) + " bytes";
  Status status = plain_ ? cuda_status(cudaMalloc(&data, bytes), what.c_str())
                         : nccl_status(ncclMemAlloc(&data, bytes), what.c_str());
  if (!status.is_ok()) static_cast<void>(cudaGetLastError());  // or the next call would return it
  return status;
}

}  // namespace kolo::nccl
