// Ranks that mean different things by one name: an error on every rank, which says what differs,
// and then everything goes on.
#include <functional>

#include "everywhere.hpp"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::message_everywhere;
using testing_support::names_of_ranks;

class Mismatch : public testing_support::WithKolo {
 protected:
  void SetUp() override {
    if (std::getenv("OMPI_COMM_WORLD_SIZE") == std::string("1")) GTEST_SKIP() << "needs 2 ranks";
    WithKolo::SetUp();
  }
};

// An operation on a tensor, under a name.
struct Kind {
  const char* name;
  std::function<void(const at::Tensor&, const std::string&)> run;
  bool own_rows = false;  // dimension 0 may differ
  bool reduces = false;
};

const at::Tensor& beside() {
  static const at::Tensor tensor = at::ones({3});
  return tensor;
}

std::vector<Kind> kinds() {
  return {
      {"allreduce", [](auto& t, auto& n) { allreduce(t, n); }, false, true},
      {"allreduce_", [](auto& t, auto& n) { allreduce_(t.clone(), n); }, false, true},
      {"grouped_allreduce",
       [](auto& t, auto& n) {
         grouped_allreduce({beside(), t}, n);
       },
       false, true},
      {"broadcast", [](auto& t, auto& n) { broadcast(t, 0, n); }},
      {"broadcast_", [](auto& t, auto& n) { broadcast_(t.clone(), 0, n); }},
      {"grouped_broadcast",
       [](auto& t, auto& n) {
         grouped_broadcast({beside(), t}, 0, n);
       }},
      {"allgather", [](auto& t, auto& n) { allgather(t, n); }, true},
      {"grouped_allgather",
       [](auto& t, auto& n) {
         grouped_allgather({beside(), t}, n);
       },
       true},
      {"alltoall",
       [](auto& t, auto& n) {
         std::vector<std::int64_t> splits(static_cast<std::size_t>(size()), 0);
         splits[0] = t.size(0);
         alltoall(t, splits, n);
       },
       true},
      {"reducescatter", [](auto& t, auto& n) { reducescatter(t, n); }, false, true},
      {"grouped_reducescatter",
       [](auto& t, auto& n) {
         grouped_reducescatter({beside(), t}, n);
       },
       false, true},
  };
}

bool odd() {
  return rank() % 2 == 1;
}

// "float32 on ranks 0, 2; int32 on ranks 1, 3".
std::string both(const std::string& even, const std::string& other) {
  return even + " on " + names_of_ranks(false) + "; " + other + " on " + names_of_ranks(true);
}

void expect_mismatch(const std::string& what, const std::function<void()>& wrong,
                     const std::function<void()>& right) {
  SCOPED_TRACE(what);
  EXPECT_THAT(message_everywhere<MismatchError>(wrong), AllOf(HasSubstr("'x'"), HasSubstr(what)));
  EXPECT_NO_THROW(right());
  EXPECT_EQ(allreduce(at::ones({1}), ReduceOp::Sum).item<float>(), size());
}

TEST_F(Mismatch, Dtypes) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const at::Tensor mine = at::ones({4, 3}, odd() ? at::kInt : at::kFloat);
    expect_mismatch(
        both("float32", "int32"), [&] { kind.run(mine, "x"); },
        [&] {
          kind.run(at::ones({4, 3}), "x");
        });
  }
}

TEST_F(Mismatch, Extents) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const at::Tensor mine = odd() ? at::ones({4, 2}) : at::ones({4, 3});
    const std::string difference =
        kind.own_rows ? both("[*, 3]", "[*, 2]") : both("[4, 3]", "[4, 2]");
    expect_mismatch(
        difference, [&] { kind.run(mine, "x"); },
        [&] {
          kind.run(at::ones({4, 3}), "x");
        });
  }
}

TEST_F(Mismatch, SameElementsOtherDimensions) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const at::Tensor mine = odd() ? at::ones({4, 3, 2}) : at::ones({4, 6});
    const std::string difference =
        kind.own_rows ? both("[*, 6]", "[*, 3, 2]") : both("[4, 6]", "[4, 3, 2]");
    expect_mismatch(
        difference, [&] { kind.run(mine, "x"); },
        [&] {
          kind.run(at::ones({4, 6}), "x");
        });
  }
}

TEST_F(Mismatch, AnotherExtentOnEveryRank) {
  for (const Kind& kind : kinds()) {
    if (kind.own_rows) continue;
    SCOPED_TRACE(kind.name);
    std::string last = "[" + std::to_string(17 + size() - 1) + "] on rank ";
    expect_mismatch(
        last + std::to_string(size() - 1), [&] { kind.run(at::ones({17 + rank()}), "x"); },
        [&] { kind.run(at::ones({17}), "x"); });
  }
}

TEST_F(Mismatch, OfWhatAReductionIs) {
  using Change = std::function<void(AllreduceOptions&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {both("Sum", "Max"), [](auto& o) { o.op(ReduceOp::Max); }},
      {"prescale factor: " + both("1", "0.5"), [](auto& o) { o.prescale_factor(0.5); }},
      {"postscale factor: " + both("1", "3"), [](auto& o) { o.postscale_factor(3); }},
  };
  const at::Tensor t = at::ones({4, 3});
  const std::vector<std::function<void(const AllreduceOptions&)>> reductions = {
      [&](const auto& o) { allreduce(t, o); },
      [&](const auto& o) {
        grouped_allreduce({t, t}, o);
      },
      [&](const auto& o) { reduce(t, 0, o); },
      [&](const auto& o) { reducescatter(t, o); },
      [&](const auto& o) {
        grouped_reducescatter({t, t}, o);
      },
  };
  for (const auto& run : reductions) {
    for (const auto& [difference, change] : changes) {
      AllreduceOptions options = AllreduceOptions("x").op(ReduceOp::Sum);
      const AllreduceOptions right = options;
      if (odd()) change(options);
      expect_mismatch(
          difference, [&] { run(options); }, [&] { run(right); });
    }
  }
}

TEST_F(Mismatch, OfTheRoot) {
  const at::Tensor t = at::ones({4});
  const int root = odd() ? 1 : 0;
  const std::string difference = "root rank: " + both("0", "1");
  expect_mismatch(
      difference, [&] { broadcast(t, root, "x"); }, [&] { broadcast(t, 1, "x"); });
  expect_mismatch(
      difference, [&] { reduce(t, root, "x"); }, [&] { reduce(t, 1, "x"); });
  expect_mismatch(
      difference, [&] { reduce_(t, root, "x"); }, [&] { reduce_(t, 1, "x"); });
  expect_mismatch(
      difference,
      [&] {
        grouped_broadcast({t, t}, root, "x");
      },
      [&] {
        grouped_broadcast({t, t}, 1, "x");
      });
  expect_mismatch(
      difference, [&] { broadcast_object(std::string("a"), root, "x"); },
      [&] { broadcast_object(std::string("a"), 1, "x"); });
}

// Every kind against another one. Calls without a name are matched by their order. (Those with a
// name: see negotiation_test and jobs/stalls.sh.)
TEST_F(Mismatch, OfTheOperation) {
  const std::vector<Kind> all = kinds();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Kind& a = all[i];
    const Kind& b = all[(i + 3) % all.size()];
    SCOPED_TRACE(std::string(a.name) + " against " + b.name);
    const at::Tensor t = at::ones({4});
    EXPECT_THAT(message_everywhere<MismatchError>([&] { (odd() ? b : a).run(t, ""); }),
                AllOf(HasSubstr("'unnamed."), HasSubstr(names_of_ranks(true))));
    EXPECT_NO_THROW(a.run(t, ""));
  }
}

TEST_F(Mismatch, OfAGroup) {
  const at::Tensor t = at::ones({4});
  const at::Tensor longer = at::ones({5});
  const at::Tensor whole = at::ones({4}, at::kLong);
  const auto sum = [](const std::vector<at::Tensor>& group) { grouped_allreduce(group, "x"); };
  const auto right = [&] { sum({t, t, t}); };
  expect_mismatch(
      "number of tensors: " + both("3", "2"),
      [&] {
        sum(odd() ? std::vector{t, t} : std::vector{t, t, t});
      },
      right);
  expect_mismatch(
      "shape of tensor 1: " + both("[4]", "[5]"),
      [&] {
        sum({t, odd() ? longer : t, t});
      },
      right);
  expect_mismatch(
      "dtype of tensor 2: " + both("float32", "int64"),
      [&] {
        sum({t, t, odd() ? whole : t});
      },
      right);
  expect_mismatch(
      "number of tensors: " + both("3", "1"),
      [&] {
        odd() ? void(allreduce(t, "x")) : sum({t, t, t});
      },
      right);
}

// The name is known by its number by then.
TEST_F(Mismatch, OfANameThatWasRightBefore) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const at::Tensor good = at::ones({4, 3});
    for (int i = 0; i < 3; ++i) kind.run(good, "x");
    for (int i = 0; i < 2; ++i) {
      expect_mismatch(
          both("float32", "float64"), [&] { kind.run(odd() ? good.to(at::kDouble) : good, "x"); },
          [&] { kind.run(good, "x"); });
    }
  }
}

TEST_F(Mismatch, OfProcessSets) {
  EXPECT_THAT(message_everywhere<MismatchError>([] { add_process_set({odd() ? 1 : 0}); }),
              HasSubstr("on " + names_of_ranks(true)));
  EXPECT_EQ(add_process_set({0}).size(), 1);
}

}  // namespace
}  // namespace kolo
