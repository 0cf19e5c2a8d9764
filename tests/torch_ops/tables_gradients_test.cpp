// backward() through every operation: dtype x dimensions x process set, against ATen's own
// gradients in one program that has all ranks' tensors and whose loss is the sum of their losses.
#include "tables.hpp"

namespace kolo::tables {
namespace {

using GradientTables = WithKolo;

constexpr double kUnits = 4;  // of precision; divisions and factors round in other places

// Other weights on each rank and for each element.
at::Tensor loss_of(const Tensors& results, int rank) {
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const at::Tensor& result : results) {
    const at::Tensor weights = values_of(rank, result.sizes(), result.scalar_type(), 1);
    loss = loss + (result * weights).to(at::kDouble).sum();
  }
  return loss;
}

Tensors with_gradients(const Tensors& tensors) {
  Tensors leaves;
  for (const at::Tensor& tensor : tensors)
    leaves.push_back(tensor.detach().clone().requires_grad_());
  return leaves;
}

Tensors gradients_of(const Tensors& leaves) {
  Tensors gradients;
  for (const at::Tensor& leaf : leaves)
    gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf).detach());
  return gradients;
}

Tensors expected_gradients(const ProcessSet& set, const Specs& specs, const Reference& reference) {
  const std::vector<int> ranks = set.ranks();
  std::vector<Tensors> leaves;  // by place
  for (const int rank : ranks) leaves.push_back(with_gradients(inputs_of(rank, specs)));
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    Tensors results;
    for (std::size_t i = 0; i < leaves[0].size(); ++i) {
      Tensors all;
      for (const Tensors& of_rank : leaves) all.push_back(of_rank[i]);
      results.push_back(reference(all, static_cast<int>(place)));
    }
    loss = loss + loss_of(results, ranks[place]);
  }
  loss.backward();
  return gradients_of(leaves[set.rank()]);
}

using Run = std::function<Tensors(const Tensors& tensors)>;

void check_gradients(const char* name, const Specs& specs, const Tensors& wanted, const Run& run) {
  SCOPED_TRACE(name);
  const Tensors leaves = with_gradients(inputs_of(rank(), specs));
  loss_of(run(leaves), rank()).backward();
  expect_near(gradients_of(leaves), wanted, kUnits);
}

// `one` runs the operation on each tensor by itself, `group` on all together.
void check_gradients(const ProcessSet& set, const Specs& specs, const Reference& reference,
                     const Run& one, const Run& group) {
  SCOPED_TRACE(to_text(set));
  const Tensors wanted = expected_gradients(set, specs, reference);
  check_gradients("one by one", specs, wanted, one);
  if (group) check_gradients("as a group", specs, wanted, group);
}

std::vector<AllreduceOptions> reductions(const ProcessSet& set) {
  std::vector<AllreduceOptions> all;
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Average}) {
    const AllreduceOptions plain = AllreduceOptions(op).process_set(set);
    all.push_back(plain);
    all.push_back(AllreduceOptions(plain).prescale_factor(2).postscale_factor(4).name("scaled"));
  }
  return all;
}

std::string to_text(const AllreduceOptions& options) {
  return (options.op() == ReduceOp::Sum ? "Sum " : "Average ") + options.name();
}

TEST_F(GradientTables, Allreduce) {
  for (const ProcessSet& set : sets_of_this_rank()) {
    for (const AllreduceOptions& options : reductions(set)) {
      SCOPED_TRACE(to_text(options));
      check_gradients(
          set, {kFloating, 0, 3},
          [&](const Tensors& all, int /*place*/) { return reduced(all, options); },
          [&](const Tensors& t) { return each(t, options, allreduce); },
          [&](const Tensors& t) { return grouped_allreduce(t, options); });
    }
  }
}

TEST_F(GradientTables, Reducescatter) {
  for (const ProcessSet& set : sets_of_this_rank()) {
    const Specs specs = {kFloating, 1, 3, [&](int /*rank*/) { return 2 * set.size() + 1; }};
    for (const AllreduceOptions& options : reductions(set)) {
      SCOPED_TRACE(to_text(options));
      check_gradients(
          set, specs,
          [&](const Tensors& all, int place) {
            return share(reduced(all, options), all.size(), place);
          },
          [&](const Tensors& t) { return each(t, options, reducescatter); },
          [&](const Tensors& t) { return grouped_reducescatter(t, options); });
    }
  }
}

TEST_F(GradientTables, Broadcast) {
  for (const ProcessSet& set : sets_of_this_rank()) {
    const auto options = OperationOptions().process_set(set);
    const std::vector<int> ranks = set.ranks();
    for (std::size_t root = 0; root < ranks.size(); ++root) {
      SCOPED_TRACE("root " + std::to_string(ranks[root]));
      const auto from_root = [&](const at::Tensor& tensor, const OperationOptions& o) {
        return broadcast(tensor, ranks[root], o);
      };
      check_gradients(
          set, {kFloating, 0, 3}, [&](const Tensors& all, int /*place*/) { return all[root]; },
          [&](const Tensors& t) { return each(t, options, from_root); },
          [&](const Tensors& t) { return grouped_broadcast(t, ranks[root], options); });
    }
  }
}

// Rank 3 has no rows.
TEST_F(GradientTables, Allgather) {
  const Specs specs = {kFloating, 1, 3, [](int rank) { return (rank + 1) % 4; }};
  for (const ProcessSet& set : sets_of_this_rank()) {
    const auto options = OperationOptions("table").process_set(set);
    check_gradients(
        set, specs, [](const Tensors& all, int /*place*/) { return at::cat(all); },
        [&](const Tensors& t) { return each(t, options, allgather); },
        [&](const Tensors& t) { return grouped_allgather(t, options); });
  }
}

TEST_F(GradientTables, Alltoall) {
  for (const ProcessSet& set : sets_of_this_rank()) {
    const auto check = [&](const SplitsOf& splits_of, const Splits& given) {
      const auto run = [&](const at::Tensor& tensor, const OperationOptions& options) {
        return alltoall(tensor, given, options).output;
      };
      check_gradients(
          set, {kFloating, 1, 3, rows_in(splits_of)}, alltoall_of(set, splits_of),
          [&](const Tensors& t) { return each(t, OperationOptions().process_set(set), run); },
          nullptr);
    };
    const auto uneven = [&](int rank) { return uneven_splits(rank, set.size()); };
    check(uneven, uneven(rank()));
    check([&](int /*rank*/) { return Splits(set.size(), 2); }, {});
  }
}

// --- groups of which not every member has a gradient ---

struct Group {
  const char* name;
  bool takes_bool;
  Run run;
  // What the sum of the ranks' result.sum() gives as the gradient of each element of this rank.
  std::function<double()> gradient;
};

const std::vector<Group> kGroups = {
    {"grouped_allreduce", false,
     [](const Tensors& t) { return grouped_allreduce(t, ReduceOp::Sum); }, [] { return size(); }},
    {"grouped_broadcast", true, [](const Tensors& t) { return grouped_broadcast(t, size() - 1); },
     [] { return rank() == size() - 1 ? size() : 0; }},
    {"grouped_allgather", true, [](const Tensors& t) { return grouped_allgather(t); },
     [] { return size(); }},
    {"grouped_reducescatter", false,
     [](const Tensors& t) { return grouped_reducescatter(t, ReduceOp::Sum); }, [] { return 1; }},
};

TEST_F(GradientTables, GroupsOfWhichOneResultIsUsed) {
  for (const Group& group : kGroups) {
    SCOPED_TRACE(group.name);
    for (std::size_t used = 0; used < 3; ++used) {
      const Tensors leaves = with_gradients(Tensors(3, at::ones({4, 2}, at::kDouble)));
      group.run(leaves)[used].sum().backward();
      const Tensors gradients = gradients_of(leaves);
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        const double wanted = i == used ? group.gradient() : 0;
        expect_near(gradients[i], at::full({4, 2}, wanted, at::kDouble));
      }
    }
  }
}

TEST_F(GradientTables, GroupsOfWhichOneTensorNeedsNoGradient) {
  for (const Group& group : kGroups) {
    for (const at::ScalarType dtype : kNumbersAndBool) {
      if (dtype == at::kBool && !group.takes_bool) continue;
      SCOPED_TRACE(std::string(group.name) + " with " + c10::toString(dtype));
      const Tensors leaves = with_gradients({at::ones({4}), at::ones({4, 2}, at::kDouble)});
      const at::Tensor plain = values_of(rank(), {4}, dtype);
      const Tensors results = group.run({leaves[0], plain, leaves[1]});
      expect_near(results[1], group.run({plain})[0]);
      EXPECT_TRUE(results[0].requires_grad());
      EXPECT_TRUE(results[2].requires_grad());
      EXPECT_FALSE(results[1].requires_grad() && !at::isFloatingType(dtype));
      (results[0].sum() + results[2].sum()).backward();
      for (const at::Tensor& leaf : leaves)
        expect_near(leaf.grad(), at::full_like(leaf.detach(), group.gradient()));
    }
  }
}

}  // namespace
}  // namespace kolo::tables
