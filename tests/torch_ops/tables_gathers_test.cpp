// broadcast, allgather and alltoall in every form: dtype x dimensions x process set.
#include "tables.hpp"

namespace kolo::tables {
namespace {

using GatherTables = WithKolo;

using Forms = std::vector<Form<OperationOptions>>;

Forms broadcasts(int root) {
  const auto from_root = [root](auto call) {
    return [root, call](const auto& what, const OperationOptions& options) {
      return call(what, root, options);
    };
  };
  return {
      {"broadcast", false, one_by_one(from_root(broadcast))},
      {"broadcast_", true, one_by_one(from_root(broadcast_))},
      {"broadcast_async", false, all_at_once(from_root(broadcast_async))},
      {"broadcast_async_", true, all_at_once(from_root(broadcast_async_))},
      {"grouped_broadcast", false, from_root(grouped_broadcast)},
      {"grouped_broadcast_", true, from_root(grouped_broadcast_)},
      {"grouped_broadcast_async", false, as_a_group(from_root(grouped_broadcast_async))},
      {"grouped_broadcast_async_", true, as_a_group(from_root(grouped_broadcast_async_))},
  };
}

const Forms kAllgathers = {
    {"allgather", false, one_by_one(allgather)},
    {"allgather_async", false, all_at_once(allgather_async)},
    {"grouped_allgather", false, grouped_allgather},
    {"grouped_allgather_async", false, as_a_group(grouped_allgather_async)},
};

// The received splits follow the outputs.
Forms alltoalls(const Splits& splits) {
  const auto with_splits = [splits](auto call) {
    return [splits, call](const at::Tensor& tensor, const OperationOptions& options) {
      return call(tensor, splits, options);
    };
  };
  const auto flat = [](auto run) {
    return [run](const Tensors& tensors, const OperationOptions& options) {
      const std::vector<AlltoallResult> results = run(tensors, options);
      Tensors outputs;
      for (const AlltoallResult& result : results) outputs.push_back(result.output);
      for (const AlltoallResult& result : results)
        outputs.push_back(at::tensor(result.received_splits));
      return outputs;
    };
  };
  return {
      {"alltoall", false, flat(one_by_one(with_splits(alltoall)))},
      {"alltoall_async", false, flat(all_at_once(with_splits(alltoall_async)))},
  };
}

// With and without a name.
void check_all(const Forms& forms, const ProcessSet& set, const Tensors& inputs,
               const Tensors& wanted) {
  SCOPED_TRACE(to_text(set));
  for (const Form<OperationOptions>& form : forms) {
    for (const char* name : {"", "table"})
      check(form, inputs, OperationOptions(name).process_set(set), wanted);
  }
}

TEST_F(GatherTables, Broadcast) {
  const Specs specs = {kNumbersAndBool, 0, 3};
  for (const ProcessSet& set : sets_of_this_rank()) {
    for (const int root : set.ranks()) {
      SCOPED_TRACE("root " + std::to_string(root));
      check_all(broadcasts(root), set, inputs_of(rank(), specs), inputs_of(root, specs));
    }
  }
}

// Rank 3 has no rows.
TEST_F(GatherTables, Allgather) {
  const Specs specs = {kNumbersAndBool, 1, 3, [](int rank) { return (rank + 1) % 4; }};
  for (const ProcessSet& set : sets_of_this_rank()) {
    check_all(kAllgathers, set, inputs_of(rank(), specs),
              expected(set, specs, [](const Tensors& all, int /*place*/) { return at::cat(all); }));
  }
}

void check_alltoall(const ProcessSet& set, const SplitsOf& splits_of, const Splits& given) {
  const Specs specs = {kNumbersAndBool, 1, 3, rows_in(splits_of)};
  Tensors wanted = expected(set, specs, alltoall_of(set, splits_of));
  Splits received;
  for (const int from : set.ranks()) received.push_back(splits_of(from)[set.rank()]);
  wanted.resize(2 * wanted.size(), at::tensor(received));
  check_all(alltoalls(given), set, inputs_of(rank(), specs), wanted);
}

TEST_F(GatherTables, Alltoall) {
  for (const ProcessSet& set : sets_of_this_rank()) {
    const auto uneven = [&](int rank) { return uneven_splits(rank, set.size()); };
    check_alltoall(set, uneven, uneven(rank()));
    check_alltoall(set, [&](int /*rank*/) { return Splits(set.size(), 2); }, {});
  }
}

}  // namespace
}  // namespace kolo::tables
