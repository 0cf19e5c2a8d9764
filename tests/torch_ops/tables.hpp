// Inputs of every dtype and number of dimensions, and what must become of them. Each rank can make
// the inputs of all ranks, so the expected values are plain ATen on all of them.
#pragma once

#include <cmath>
#include <functional>
#include <numeric>

#include "fixture.hpp"

namespace kolo::tables {

using testing_support::WithKolo;

using Tensors = std::vector<at::Tensor>;

inline const std::vector<at::ScalarType> kFloating = {at::kHalf, at::kBFloat16, at::kFloat,
                                                      at::kDouble};
inline const std::vector<at::ScalarType> kNumbers = {at::kByte,     at::kChar,  at::kShort,
                                                     at::kInt,      at::kLong,  at::kHalf,
                                                     at::kBFloat16, at::kFloat, at::kDouble};
inline const std::vector<at::ScalarType> kNumbersAndBool = {
    at::kByte, at::kChar,     at::kShort, at::kInt,    at::kLong,
    at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kBool};

// --- inputs ---

// What a rank has: whole numbers from -6 to 6 (uint8: 0 to 12), other ones on each rank and in each
// of 13 neighbouring elements; int64: times 2^30 + 1, which takes more than 32 bits. Sums, and
// products of up to four ranks, are exact in every floating dtype. `variant` makes other numbers of
// the same kind.
inline at::Tensor values_of(int rank, at::IntArrayRef shape, at::ScalarType dtype,
                            int variant = 0) {
  const std::int64_t count = at::empty(shape).numel();
  const at::Tensor values =
      (at::arange(count) * 7 + rank * 5 + variant * 3).remainder(13).reshape(shape);
  if (dtype == at::kBool) return values.gt(4);
  if (dtype == at::kByte) return values.to(dtype);
  return (dtype == at::kLong ? (values - 6) * ((1 << 30) + 1) : values - 6).to(dtype);
}

using Rows = std::function<std::int64_t(int rank)>;

// One tensor for each dtype and number of dimensions.
struct Specs {
  std::vector<at::ScalarType> dtypes;
  int first_dims;
  int last_dims;
  Rows rows = [](int /*rank*/) { return 5; };  // the extent of dimension 0
};

// Those with two dimensions are not contiguous.
inline Tensors inputs_of(int rank, const Specs& specs) {
  Tensors tensors;
  for (int dims = specs.first_dims; dims <= specs.last_dims; ++dims) {
    const std::vector<std::int64_t> whole = {specs.rows(rank), 2, 3};
    const at::IntArrayRef shape(whole.data(), dims);
    for (const at::ScalarType dtype : specs.dtypes) {
      const at::Tensor values = values_of(rank, shape, dtype);
      tensors.push_back(dims == 2 ? values.t().contiguous().t() : values);
    }
  }
  return tensors;
}

// --- what one process that has all inputs would compute ---

// The result on the rank at a place in a process set, of the inputs of all its ranks.
using Reference = std::function<at::Tensor(const Tensors& inputs, int place)>;

inline Tensors expected(const ProcessSet& set, const Specs& specs, const Reference& reference) {
  std::vector<Tensors> inputs;  // by tensor, by place
  for (const int rank : set.ranks()) {
    const Tensors of_rank = inputs_of(rank, specs);
    inputs.resize(of_rank.size());
    for (std::size_t i = 0; i < of_rank.size(); ++i) inputs[i].push_back(of_rank[i]);
  }
  Tensors results;
  for (const Tensors& of_tensor : inputs) results.push_back(reference(of_tensor, set.rank()));
  return results;
}

// In int64 or float64, and rounded once; integers wrap around.
inline at::Tensor reduced(const Tensors& inputs, ReduceOp op) {
  const at::ScalarType dtype = inputs[0].scalar_type();
  const bool floating = at::isFloatingType(dtype);
  const at::Tensor all = at::stack(inputs).to(floating ? at::kDouble : at::kLong);
  const auto n = static_cast<std::int64_t>(inputs.size());
  switch (op) {
    case ReduceOp::Average:
      return (floating ? all.sum(0) / n : at::div(all.sum(0), n, "trunc")).to(dtype);
    case ReduceOp::Min:
      return all.amin(0).to(dtype);
    case ReduceOp::Max:
      return all.amax(0).to(dtype);
    case ReduceOp::Product:
      return all.prod(0).to(dtype);
    default:
      return all.sum(0).to(dtype);
  }
}

// Integers in float64, truncated and held within their range; float16 and bfloat16 in float32.
inline at::Tensor scaled(const at::Tensor& tensor, double factor) {
  if (factor == 1) return tensor;
  const at::ScalarType dtype = tensor.scalar_type();
  if (at::isFloatingType(dtype))
    return (tensor.to(dtype == at::kDouble ? dtype : at::kFloat) * factor).to(dtype);
  const int bits = static_cast<int>(tensor.element_size()) * 8;
  const double low = dtype == at::kByte ? 0 : -std::ldexp(1.0, bits - 1);
  const double high = dtype == at::kByte ? 255 : std::ldexp(1.0, bits - 1) - 1;
  return (tensor.to(at::kDouble) * factor).trunc().clamp(low, high).to(dtype);
}

inline at::Tensor reduced(const Tensors& inputs, const AllreduceOptions& options) {
  Tensors prescaled;
  for (const at::Tensor& input : inputs)
    prescaled.push_back(scaled(input, options.prescale_factor()));
  return scaled(reduced(prescaled, options.op()), options.postscale_factor());
}

// Parts along dimension 0 of which the first have one row more where it does not come out even.
inline at::Tensor share(const at::Tensor& tensor, std::size_t shares, int place) {
  return tensor.tensor_split(static_cast<std::int64_t>(shares))[static_cast<std::size_t>(place)];
}

using Splits = std::vector<std::int64_t>;
using SplitsOf = std::function<Splits(int rank)>;

// From 0 to 4 rows for each place, others from each rank.
inline Splits uneven_splits(int rank, int size) {
  Splits splits;
  for (int place = 0; place < size; ++place) splits.push_back((rank + 3 * place + 1) % 5);
  return splits;
}

inline Rows rows_in(const SplitsOf& splits_of) {
  return [splits_of](int rank) {
    const Splits splits = splits_of(rank);
    return std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
  };
}

inline Reference alltoall_of(const ProcessSet& set, const SplitsOf& splits_of) {
  return [ranks = set.ranks(), splits_of](const Tensors& inputs, int place) {
    Tensors parts;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      parts.push_back(inputs[i].split_with_sizes(splits_of(ranks[i]))[place]);
    return at::cat(parts);
  };
}

// --- comparing ---

// The distance from 1 to the next number.
inline double precision_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::ldexp(1, -52);
    case at::kFloat:
      return std::ldexp(1, -23);
    case at::kHalf:
      return std::ldexp(1, -10);
    case at::kBFloat16:
      return std::ldexp(1, -7);
    default:
      return 0;
  }
}

// Floating point may be off by so many times the dtype's precision at the largest value, or at 1.
inline void expect_near(const at::Tensor& result, const at::Tensor& wanted, double units = 0) {
  const at::ScalarType dtype = wanted.scalar_type();
  ASSERT_EQ(result.scalar_type(), dtype);
  ASSERT_EQ(result.sizes(), wanted.sizes());
  const double tolerance = units * precision_of(dtype);
  const at::Tensor one = at::ones({1}, at::kDouble);
  const at::Tensor largest = at::cat({wanted.to(at::kDouble).abs().reshape({-1}), one}).max();
  const bool is_near = tolerance == 0 ? result.equal(wanted)
                                      : at::allclose(result.to(at::kDouble), wanted.to(at::kDouble),
                                                     0, tolerance * largest.item<double>());
  if (!is_near)
    FAIL() << dtype << " " << wanted.sizes() << ": " << result << "\ninstead of " << wanted;
}

inline void expect_near(const Tensors& results, const Tensors& wanted, double units = 0) {
  ASSERT_EQ(results.size(), wanted.size());
  for (std::size_t i = 0; i < results.size() && !testing::Test::HasFatalFailure(); ++i)
    expect_near(results[i], wanted[i], units);
}

// --- calls ---

// The options for tensor i of several that go by themselves, at the same time.
template <typename Options>
Options numbered(Options options, std::size_t i) {
  if (!options.name().empty()) options.name(options.name() + std::to_string(i));
  return options;
}

template <typename Options, typename Call>
auto each(const Tensors& tensors, const Options& options, const Call& call) {
  std::vector<decltype(call(tensors[0], options))> results;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    results.push_back(call(tensors[i], numbered(options, i)));
  return results;
}

// One way to run an operation on tensors.
template <typename Options>
struct Form {
  const char* name;
  bool in_place;
  std::function<Tensors(const Tensors& tensors, const Options& options)> run;
};

template <typename Call>
auto one_by_one(Call call) {
  return
      [call](const Tensors& tensors, const auto& options) { return each(tensors, options, call); };
}

// Starts all before it waits for the first.
template <typename Start>
auto all_at_once(Start start) {
  return [start](const Tensors& tensors, const auto& options) {
    auto handles = each(tensors, options, start);
    std::vector<decltype(handles[0].wait())> results;
    for (auto& handle : handles) results.push_back(handle.wait());
    return results;
  };
}

template <typename Start>
auto as_a_group(Start start) {
  return [start](const Tensors& tensors, const auto& options) {
    return start(tensors, options).wait();
  };
}

template <typename Options>
void check(const Form<Options>& form, const Tensors& inputs, const Options& options,
           const Tensors& wanted, double units = 0) {
  SCOPED_TRACE(std::string(form.name) + " '" + options.name() + "'");
  Tensors given;
  for (const at::Tensor& input : inputs) given.push_back(input.clone());
  const Tensors results = form.run(given, options);
  expect_near(results, wanted, units);
  if (!form.in_place) return expect_near(given, inputs);
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_TRUE(results[i].is_same(given[i]));
}

// --- process sets ---

// All ranks, all ranks backwards, and those of the even and odd ranks to which this one belongs.
// Collective.
inline std::vector<ProcessSet> sets_of_this_rank() {
  std::vector<int> backwards;
  std::vector<std::vector<int>> halves(2);
  for (int rank = 0; rank < size(); ++rank) {
    backwards.insert(backwards.begin(), rank);
    halves[rank % 2].push_back(rank);
  }
  std::vector<ProcessSet> sets = {ProcessSet(), add_process_set(backwards)};
  for (const std::vector<int>& half : halves) {
    if (half.empty()) continue;
    const ProcessSet set = add_process_set(half);
    if (set.included()) sets.push_back(set);
  }
  return sets;
}

inline std::string to_text(const ProcessSet& set) {
  return "ranks " + testing::PrintToString(set.ranks());
}

}  // namespace kolo::tables
