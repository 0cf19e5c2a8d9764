#include "collectives/reduce/combine.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/reduce/half.hpp"
#include "collectives/reduce/reduce.hpp"

// One instruction set per family: more would double the code and gain nothing, because memory is
// the limit.
#ifdef HWY_AVX3_ZEN4
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/combine.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles what is up to HWY_AFTER_NAMESPACE once for each
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kolo {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Job {
  std::span<const void* const> sources;
  std::span<const Destination> destinations;
  std::size_t count;
  const Reduction& reduction;
};

// --- dtypes: how elements are loaded into, and stored from, the vectors that are computed with ---

template <typename T>
struct Plain {
  using Element = T;
  using Lane = T;
  template <typename D>
  static HWY_INLINE hn::VFromD<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <typename D>
  static HWY_INLINE void store(D d, hn::VFromD<D> value, T* to) {
    hn::StoreU(value, d, to);
  }
  // `to` is aligned to a vector.
  template <typename D>
  static HWY_INLINE void stream(D d, hn::VFromD<D> first, hn::VFromD<D> second, T* to) {
    hn::Stream(first, d, to);
    hn::Stream(second, d, to + hn::Lanes(d));
  }
};

// The 16-bit types, computed in float32.
template <typename Type>
struct Narrow {
  using Element = std::uint16_t;
  using Lane = float;
  template <typename D>
  using Bits = hn::Rebind<std::uint16_t, D>;

  template <typename D>
  static HWY_INLINE hn::VFromD<D> load(D d, const Element* from) {
    return Type::widen(d, hn::LoadU(Bits<D>(), from));
  }
  template <typename D>
  static HWY_INLINE void store(D d, hn::VFromD<D> value, Element* to) {
    hn::StoreU(Type::narrow(d, value), Bits<D>(), to);
  }
  template <typename D>
  static HWY_INLINE void stream(D d, hn::VFromD<D> first, hn::VFromD<D> second, Element* to) {
#if HWY_TARGET == HWY_SCALAR
    store(d, first, to);
    store(d, second, to + hn::Lanes(d));
#else
    const hn::Twice<Bits<D>> both;
    hn::Stream(hn::Combine(both, Type::narrow(d, second), Type::narrow(d, first)), both, to);
#endif
  }
};

struct Brain : Narrow<Brain> {
  template <typename D>
  static HWY_INLINE hn::VFromD<D> widen(D d, hn::VFromD<Bits<D>> bits) {
    const hn::RebindToUnsigned<D> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
  }
  // Rounds as to_bfloat16() does.
  template <typename D>
  static HWY_INLINE hn::VFromD<Bits<D>> narrow(D /*d*/, hn::VFromD<D> value) {
    const hn::RebindToUnsigned<D> wide;
    const auto bits = hn::BitCast(wide, value);
    const auto top = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(top, hn::Set(wide, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(wide, 0x7fff)), odd));
    const auto quiet = hn::Or(top, hn::Set(wide, 0x40));
    const auto result = hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(value)), quiet, rounded);
    return hn::DemoteTo(Bits<D>(), hn::BitCast(hn::RebindToSigned<D>(), result));
  }
};

struct Half : Narrow<Half> {
  template <typename D>
  using Halves = hn::Rebind<hwy::float16_t, D>;
#if HWY_TARGET == HWY_SCALAR  // its own conversions do not handle infinities
  template <typename D>
  static HWY_INLINE hn::VFromD<D> widen(D d, hn::VFromD<Bits<D>> bits) {
    return hn::Set(d, to_float(Float16{hn::GetLane(bits)}));
  }
  template <typename D>
  static HWY_INLINE hn::VFromD<Bits<D>> narrow(D /*d*/, hn::VFromD<D> value) {
    return hn::Set(Bits<D>(), to_float16(hn::GetLane(value)).bits);
  }
#else
  template <typename D>
  static HWY_INLINE hn::VFromD<D> widen(D d, hn::VFromD<Bits<D>> bits) {
    return hn::PromoteTo(d, hn::BitCast(Halves<D>(), bits));
  }
  template <typename D>
  static HWY_INLINE hn::VFromD<Bits<D>> narrow(D /*d*/, hn::VFromD<D> value) {
    return hn::BitCast(Bits<D>(), hn::DemoteTo(Halves<D>(), value));
  }
#endif
};

// --- operators ---

struct Sum {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Add(a, b);
  }
};

struct Product {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Mul(a, b);
  }
};

struct Min {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Max {
  template <typename V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Max(a, b);
    }
  }
};

// --- the loop ---

template <typename Type, typename Op>
class Loop {
 public:
  explicit Loop(const Job& job)
      : job_(job),
        divisor_(static_cast<Lane>(job.reduction.divisor)),
        prescale_(static_cast<Lane>(job.reduction.prescale)),
        postscale_(static_cast<Lane>(job.reduction.postscale)),
        prescaled_(job.reduction.prescale != 1.0),
        finished_(job.reduction.divisor != 1 || job.reduction.postscale != 1.0) {}

  void run() const {
    const hn::ScalableTag<Lane> d;
    const std::size_t n = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + 4 * n <= job_.count; i += 4 * n) four(d, i);
    for (; i + n <= job_.count; i += n) one(d, i);
    for (; i < job_.count; ++i) one(hn::CappedTag<Lane, 1>(), i);
    hwy::FlushStream();
  }

 private:
  using Element = typename Type::Element;
  using Lane = typename Type::Lane;

  template <typename D>
  HWY_INLINE hn::VFromD<D> load(D d, std::size_t source, std::size_t i) const {
    const auto value = Type::load(d, static_cast<const Element*>(job_.sources[source]) + i);
    if constexpr (hwy::IsFloat<Lane>()) {
      if (prescaled_) return hn::Mul(value, hn::Set(d, prescale_));
    }
    return value;
  }

  template <typename D>
  HWY_INLINE hn::VFromD<D> finish(D d, hn::VFromD<D> value) const {
    if constexpr (hwy::IsFloat<Lane>()) {
      return hn::Mul(hn::Div(value, hn::Set(d, divisor_)), hn::Set(d, postscale_));
    } else {
      return value;  // never called: see suits_vectors()
    }
  }

  // Reduces one vector of each source, from element i on.
  template <typename D>
  HWY_INLINE void one(D d, std::size_t i) const {
    auto a = load(d, 0, i);
    for (std::size_t s = 1; s < job_.sources.size(); ++s) a = Op::apply(a, load(d, s, i));
    if (finished_) a = finish(d, a);
    for (const Destination& destination : job_.destinations)
      Type::store(d, a, static_cast<Element*>(destination.data) + i);
  }

  // Reduces four vectors of each source, from element i on.
  template <typename D>
  HWY_INLINE void four(D d, std::size_t i) const {
    const std::size_t n = hn::Lanes(d);
    auto a = load(d, 0, i);
    auto b = load(d, 0, i + n);
    auto c = load(d, 0, i + 2 * n);
    auto e = load(d, 0, i + 3 * n);
    for (std::size_t s = 1; s < job_.sources.size(); ++s) {
      a = Op::apply(a, load(d, s, i));
      b = Op::apply(b, load(d, s, i + n));
      c = Op::apply(c, load(d, s, i + 2 * n));
      e = Op::apply(e, load(d, s, i + 3 * n));
    }
    if (finished_) {
      a = finish(d, a);
      b = finish(d, b);
      c = finish(d, c);
      e = finish(d, e);
    }
    for (const Destination& destination : job_.destinations) {
      Element* const to = static_cast<Element*>(destination.data) + i;
      if (destination.streaming && is_aligned(to, n * sizeof(Lane))) {
        Type::stream(d, a, b, to);
        Type::stream(d, c, e, to + 2 * n);
      } else {
        Type::store(d, a, to);
        Type::store(d, b, to + n);
        Type::store(d, c, to + 2 * n);
        Type::store(d, e, to + 3 * n);
      }
    }
  }

  static HWY_INLINE bool is_aligned(const Element* to, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(to) % bytes == 0;
  }

  const Job& job_;
  const Lane divisor_;
  const Lane prescale_;
  const Lane postscale_;
  const bool prescaled_;
  const bool finished_;
};

template <typename Type>
void run(const Job& job) {
  switch (job.reduction.op) {
    case ReduceOp::Min:
      return Loop<Type, Min>(job).run();
    case ReduceOp::Max:
      return Loop<Type, Max>(job).run();
    case ReduceOp::Product:
      if constexpr (hwy::IsFloat<typename Type::Lane>()) Loop<Type, Product>(job).run();
      return;
    default:
      return Loop<Type, Sum>(job).run();
  }
}

void combine_in_vectors(std::span<const void* const> sources,
                        std::span<const Destination> destinations, std::size_t count,
                        const Reduction& reduction) {
  const Job job{sources, destinations, count, reduction};
  switch (reduction.dtype) {
    case DType::kBool:
    case DType::kUint8:
      return run<Plain<std::uint8_t>>(job);
    case DType::kInt8:
      return run<Plain<std::int8_t>>(job);
    case DType::kInt16:
      return run<Plain<std::int16_t>>(job);
    case DType::kInt32:
      return run<Plain<std::int32_t>>(job);
    case DType::kInt64:
      return run<Plain<std::int64_t>>(job);
    case DType::kFloat16:
      return run<Half>(job);
    case DType::kBfloat16:
      return run<Brain>(job);
    case DType::kFloat32:
      return run<Plain<float>>(job);
    case DType::kFloat64:
      return run<Plain<double>>(job);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kolo
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kolo {
namespace {

HWY_EXPORT(combine_in_vectors);

// Whether the vectorised loop can do the reduction. It does no products of integers and does not
// scale integers, which are rare.
bool suits_vectors(const Reduction& reduction) {
  if (is_floating(reduction.dtype)) return true;
  const bool scaled = reduction.prescale != 1.0 || reduction.postscale != 1.0;
  return reduction.op != ReduceOp::Product && !scaled;
}

// Reduces block by block, in memory that stays in the cache.
void combine_in_blocks(std::span<const void* const> sources,
                       std::span<const Destination> destinations, std::size_t count,
                       const Reduction& reduction) {
  const DType dtype = reduction.dtype;
  const std::size_t width = size_of(dtype);
  alignas(64) std::array<std::byte, 2048> result;
  alignas(64) std::array<std::byte, 2048> value;
  const std::size_t most = result.size() / width;
  for (std::size_t i = 0; i < count; i += most) {
    const std::size_t n = std::min(most, count - i);
    const auto take = [&](const void* source, std::array<std::byte, 2048>& into) {
      std::memcpy(into.data(), static_cast<const std::byte*>(source) + i * width, n * width);
      scale(into.data(), n, dtype, reduction.prescale);
    };
    take(sources[0], result);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      take(sources[s], value);
      reduce_integers(result.data(), value.data(), n, dtype, reduction.op);
    }
    scale(result.data(), n, dtype, reduction.postscale);
    for (const Destination& destination : destinations)
      std::memcpy(static_cast<std::byte*>(destination.data) + i * width, result.data(), n * width);
  }
}

}  // namespace

void combine(std::span<const void* const> sources, std::span<const Destination> destinations,
             std::size_t count, const Reduction& reduction) {
  Reduction meant = reduction;
  if (reduction.dtype == DType::kBool) {
    meant.prescale = meant.postscale = 1.0;
    meant.divisor = 1;
    if (meant.op == ReduceOp::Product) meant.op = ReduceOp::Min;
  }
  if (!suits_vectors(meant)) return combine_in_blocks(sources, destinations, count, meant);
  HWY_DYNAMIC_DISPATCH(combine_in_vectors)(sources, destinations, count, meant);
}

void copy(void* to, const void* from, std::size_t bytes, bool streaming) {
  Reduction nothing;
  nothing.dtype = DType::kUint8;
  const void* const sources[] = {from};
  const Destination destination[] = {{to, streaming}};
  combine(sources, destination, bytes, nothing);
}

Reduction step_of(const Reduction& reduction) {
  Reduction step;
  step.dtype = reduction.dtype;
  step.op = reduction.op;
  return step;
}

void combine_into(void* accumulator, const void* values, std::size_t count,
                  const Reduction& reduction) {
  const void* const sources[] = {accumulator, values};
  const Destination destination[] = {{accumulator}};
  combine(sources, destination, count, reduction);
}

void finish(void* values, std::size_t count, const Reduction& reduction) {
  if (reduction.divisor == 1 && reduction.postscale == 1.0) return;
  Reduction rest = reduction;
  rest.op = ReduceOp::Sum;
  rest.prescale = 1.0;
  const void* const sources[] = {values};
  const Destination destination[] = {{values}};
  combine(sources, destination, count, rest);
}

}  // namespace kolo
#endif
