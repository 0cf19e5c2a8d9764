// Building blocks of works that NCCL carries out.
#pragma once

#include <nccl.h>

#include <functional>
#include <utility>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/nccl/check.hpp"
#include "collectives/nccl/communicator.hpp"
#include "collectives/nccl/timing.hpp"
#include "collectives/work.hpp"

namespace kolo::nccl {

// Returns NCCL's type for a dtype. NCCL has no int16, which travels as int32.
inline ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool:
      return ncclUint8;
    case DType::kInt8:
      return ncclInt8;
    case DType::kInt16:
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBfloat16:
      return ncclBfloat16;
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
  }
  return ncclUint8;
}

// Returns NCCL's operator. An average is a sum, because it is divided before. A bool is 0 or 1, so
// the product is the minimum.
inline ncclRedOp_t operator_of(const Reduction& reduction) {
  switch (reduction.op) {
    case ReduceOp::Min:
      return ncclMin;
    case ReduceOp::Max:
      return ncclMax;
    case ReduceOp::Product:
      return reduction.dtype == DType::kBool ? ncclMin : ncclProd;
    case ReduceOp::Sum:
    case ReduceOp::Average:
    case ReduceOp::Adasum:  // never comes here
      break;
  }
  return ncclSum;
}

// Makes a call that enqueues something and then, when NCCL has finished with that, another one.
class Enqueue final : public Work {
 public:
  using Call = std::function<Status()>;

  Enqueue(Streams& streams, const Communicator& communicator, Call call, Call then)
      : streams_(streams),
        communicator_(communicator),
        call_(std::move(call)),
        then_(std::move(then)) {}

  Status start() override {
    const OnDevice here(streams_.device());
    if (!here.status().is_ok()) return here.status();
    if (Status s = streams_.join(); !s.is_ok()) return s;
    if (Status s = streams_.mark(&WorkSpan::begun, streams_.reducing()); !s.is_ok()) return s;
    return call_();
  }

  Progress step(Status& status) override {
    const Progress progress = communicator_.settle(status);
    if (progress != Progress::kDone || !then_) return progress;
    const OnDevice here(streams_.device());
    status = here.status();
    if (status.is_ok()) status = then_();
    return status.is_ok() ? Progress::kDone : Progress::kFailed;
  }

 private:
  Streams& streams_;                  // outlives the work
  const Communicator& communicator_;  // likewise
  const Call call_;
  const Call then_;  // may be empty
};

// A work that has nothing to move.
class Nothing final : public Work {
 public:
  Status start() override { return Status::ok(); }
  Progress step(Status& /*status*/) override { return Progress::kDone; }
};

}  // namespace kolo::nccl
