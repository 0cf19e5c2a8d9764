// allreduce, reduce and reducescatter in every form: operator x scales x dtype x dimensions x
// process set.
#include "core/types.hpp"
#include "tables.hpp"

namespace kolo::tables {
namespace {

using ReductionTables = WithKolo;

using Forms = std::vector<Form<AllreduceOptions>>;

const Forms kAllreduces = {
    {"allreduce", false, one_by_one(allreduce)},
    {"allreduce_", true, one_by_one(allreduce_)},
    {"allreduce_async", false, all_at_once(allreduce_async)},
    {"allreduce_async_", true, all_at_once(allreduce_async_)},
    {"grouped_allreduce", false, grouped_allreduce},
    {"grouped_allreduce_", true, grouped_allreduce_},
    {"grouped_allreduce_async", false, as_a_group(grouped_allreduce_async)},
    {"grouped_allreduce_async_", true, as_a_group(grouped_allreduce_async_)},
};

const Forms kReducescatters = {
    {"reducescatter", false, one_by_one(reducescatter)},
    {"reducescatter_async", false, all_at_once(reducescatter_async)},
    {"grouped_reducescatter", false, grouped_reducescatter},
    {"grouped_reducescatter_async", false, as_a_group(grouped_reducescatter_async)},
};

// On all ranks but the root, the forms in place leave the tensors as they are.
Forms reduces(int root, bool in_place) {
  const auto to_root = [root](auto call) {
    return [root, call](const at::Tensor& tensor, const AllreduceOptions& options) {
      return call(tensor, root, options);
    };
  };
  if (in_place) {
    return {{"reduce_", true, one_by_one(to_root(reduce_))},
            {"reduce_async_", true, all_at_once(to_root(reduce_async_))}};
  }
  return {{"reduce", false, one_by_one(to_root(reduce))},
          {"reduce_async", false, all_at_once(to_root(reduce_async))}};
}

struct Reduction {
  ReduceOp op;
  double prescale = 1;
  double postscale = 1;
  double units = 0;  // of precision by which a result may be off; 0: exact

  std::vector<at::ScalarType> dtypes() const {
    const bool with_bool = op != ReduceOp::Sum && op != ReduceOp::Average;
    const bool unscaled = prescale == 1 && postscale == 1;
    return with_bool && unscaled ? kNumbersAndBool : kNumbers;
  }
  AllreduceOptions options(const ProcessSet& set) const {
    return AllreduceOptions(op).prescale_factor(prescale).postscale_factor(postscale).process_set(
        set);
  }
  std::string text() const {
    return name_of(op) + (" * " + std::to_string(prescale)) + " * " + std::to_string(postscale);
  }
};

// Where scales round, they do so once, or a tolerance is given.
const std::vector<Reduction> kOperators = {{ReduceOp::Average}, {ReduceOp::Sum},
                                           {ReduceOp::Min},     {ReduceOp::Max},
                                           {ReduceOp::Product}, {ReduceOp::Sum, 0.5, 4}};
const std::vector<Reduction> kScales = {
    {ReduceOp::Sum, 0.37, 3, 16},     // integers: cut off before the sum
    {ReduceOp::Average, 2, 0.25},     // integers: cut off after the division, and again at the end
    {ReduceOp::Product, -0.5, 0.37},  // uint8: negative numbers become 0
    {ReduceOp::Max, 0.37, 1},        {ReduceOp::Min, 1, 0.37},
    {ReduceOp::Max, 1, 1e9},  // int8 to int32: held at the largest; float16: infinite
    {ReduceOp::Min, 1, 1e9},
};

// Returns a rank's result of all inputs. `place`: the rank's in the process set.
using Result =
    std::function<at::Tensor(const Tensors& all, const AllreduceOptions& options, int place)>;

// Every form with one half of the operators with a name, with the other half without.
void check_all(const Forms& forms, const std::vector<Reduction>& reductions, const ProcessSet& set,
               Specs specs, const Result& result) {
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    const Reduction& reduction = reductions[i];
    SCOPED_TRACE(reduction.text() + " on " + to_text(set));
    AllreduceOptions options = reduction.options(set);
    specs.dtypes = reduction.dtypes();
    const Tensors inputs = inputs_of(rank(), specs);
    const Tensors wanted = expected(
        set, specs, [&](const Tensors& all, int place) { return result(all, options, place); });
    for (std::size_t k = 0; k < forms.size(); ++k) {
      options.name((i + k) % 2 == 0 ? "" : "table");
      check(forms[k], inputs, options, wanted, reduction.units);
    }
  }
}

Specs uneven(const ProcessSet& set) {
  return {{}, 1, 3, [n = set.size()](int /*rank*/) { return 2 * n + 1; }};
}

at::Tensor whole(const Tensors& all, const AllreduceOptions& options, int /*place*/) {
  return reduced(all, options);
}
at::Tensor scattered(const Tensors& all, const AllreduceOptions& options, int place) {
  return share(reduced(all, options), all.size(), place);
}

TEST_F(ReductionTables, Allreduce) {
  const Specs specs = {{}, 0, 3};
  for (const ProcessSet& set : sets_of_this_rank())
    check_all(kAllreduces, kOperators, set, specs, whole);
  check_all(kAllreduces, kScales, ProcessSet(), specs, whole);
}

// The first rank gets one row more than the others.
TEST_F(ReductionTables, Reducescatter) {
  for (const ProcessSet& set : sets_of_this_rank())
    check_all(kReducescatters, kOperators, set, uneven(set), scattered);
  check_all(kReducescatters, kScales, ProcessSet(), uneven(ProcessSet()), scattered);
}

void check_reduces(const std::vector<Reduction>& reductions, const ProcessSet& set,
                   const Specs& specs) {
  for (const int root : set.ranks()) {
    SCOPED_TRACE("root " + std::to_string(root));
    for (const bool in_place : {false, true}) {
      check_all(reduces(root, in_place), reductions, set, specs,
                [&](const Tensors& all, const AllreduceOptions& options, int place) {
                  if (rank() == root) return reduced(all, options);
                  const at::Tensor& own = all[static_cast<std::size_t>(place)];
                  return in_place ? own : at::zeros_like(own);
                });
    }
  }
}

TEST_F(ReductionTables, Reduce) {
  for (const ProcessSet& set : sets_of_this_rank()) check_reduces(kOperators, set, {{}, 0, 3});
  check_reduces(kScales, ProcessSet(), {{}, 0, 3});
}

// Tensors of 24 KB and more, whose elements cannot be shared out evenly.
TEST_F(ReductionTables, ReduceOfLargeTensors) {
  const Specs large = {{}, 3, 3, [](int /*rank*/) { return 4001; }};
  for (const ProcessSet& set : sets_of_this_rank()) check_reduces(kOperators, set, large);
  check_reduces(kScales, ProcessSet(), large);
}

}  // namespace
}  // namespace kolo::tables
