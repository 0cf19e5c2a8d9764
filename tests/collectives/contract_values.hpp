// What the programs of contract.hpp stand on: running a work, values whose sums are exact, and the
// check of an allreduce.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/reduce/half.hpp"
#include "core/clock.hpp"

namespace kolo::contract {

using Case = std::function<void(Transport&)>;

inline Status run(Work& work) {
  Status status = work.start();
  if (!status.is_ok()) return status;
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  while (true) {
    const Progress progress = work.step(status);
    if (progress == Progress::kDone) return Status::ok();
    if (progress == Progress::kFailed) return status;
    if (progress == Progress::kWaiting) {
      if (Clock::now() > deadline) return Status::timeout("the work did not end");
      std::this_thread::yield();
    }
  }
}

// By number of AllreduceAlgorithm.
using MakeAllreduce = std::unique_ptr<Work>(Transport&, Tag, void*, std::size_t, const Reduction&,
                                            std::size_t);
inline constexpr MakeAllreduce* kAllreduces[] = {make_recursive_doubling_allreduce,
                                                 make_halving_doubling_allreduce,
                                                 make_ring_allreduce, make_tree_allreduce};

// Whole numbers so small that every sum is exact in every dtype, and different per rank and place.
inline double value(int rank, std::size_t i) {
  return static_cast<double>((i * 7 + rank * 3) % 5);
}

// Whose sums depend on the order.
inline std::vector<float> inexact_values(int rank) {
  std::vector<float> values(1001);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0F / static_cast<float>(i * 3 + rank + 1);
  return values;
}
inline std::vector<float> zeros_of_both_signs(int rank) {
  std::vector<float> values(1001);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (i / (rank + 1)) % 2 == 0 ? 0.0F : -0.0F;
  return values;
}
inline std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

template <typename T>
T make(double x) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return to_bfloat16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

template <typename T>
double show(T x) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return to_float(x);
  } else {
    return static_cast<double>(x);
  }
}

inline double expected(int size, std::size_t i, ReduceOp op) {
  double result = value(0, i);
  for (int rank = 1; rank < size; ++rank) {
    const double x = value(rank, i);
    switch (op) {
      case ReduceOp::Average:
      case ReduceOp::Sum:
        result += x;
        break;
      case ReduceOp::Min:
        result = std::min(result, x);
        break;
      case ReduceOp::Max:
        result = std::max(result, x);
        break;
      case ReduceOp::Product:
        result *= x;
        break;
      case ReduceOp::Adasum:  // has tests of its own
        break;
    }
  }
  return result;
}

template <typename Make>
void check_allreduce(Transport& transport, DType dtype, ReduceOp op, std::size_t count, Tag tag,
                     const Make& make_work) {
  const auto check = [&](auto type) {
    using T = decltype(type);
    // One element of offset, so that the data are misaligned for vector instructions, and guards.
    std::vector<T> data(count + 2, make<T>(7));
    for (std::size_t i = 0; i < count; ++i) data[i + 1] = make<T>(value(transport.rank(), i));
    Reduction reduction;
    reduction.dtype = dtype;
    reduction.op = op;
    const std::unique_ptr<Work> work = make_work(tag, data.data() + 1, count, reduction);
    const Status status = run(*work);
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(show(data.front()), 7);
    EXPECT_EQ(show(data.back()), 7);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(show(data[i + 1]), expected(transport.size(), i, op))
          << name_of(dtype) << " " << name_of(op) << " element " << i << " of " << count
          << " on rank " << transport.rank() << " of " << transport.size();
    }
  };
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return check(std::uint8_t{});
    case DType::kInt8:
      return check(std::int8_t{});
    case DType::kInt16:
      return check(std::int16_t{});
    case DType::kInt32:
      return check(std::int32_t{});
    case DType::kInt64:
      return check(std::int64_t{});
    case DType::kFloat16:
      return check(Float16{});
    case DType::kBfloat16:
      return check(Bfloat16{});
    case DType::kFloat32:
      return check(float{});
    case DType::kFloat64:
      return check(double{});
  }
}

}  // namespace kolo::contract
