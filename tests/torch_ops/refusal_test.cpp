// An argument is wrong on one rank: that one gets an InvalidArgumentError, and the others, instead
// of waiting for it, a MismatchError with the reason. Then everything goes on.
#include <functional>

#include "everywhere.hpp"

namespace kolo {

namespace {
struct Unwritable {};
}  // namespace

template <>
struct Codec<Unwritable> {
  static std::string encode(const Unwritable& /*object*/) {
    throw DataError("it cannot be written");
  }
  static Unwritable decode(const std::string& /*bytes*/) { return {}; }
};

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Refusal = WithKolo;

struct Kind {
  const char* name;
  std::function<void(const at::Tensor&, const std::string&)> run;
  bool reduces = false;
  bool has_rows = false;
};

std::vector<Kind> kinds() {
  const auto one = [] { return at::ones({2}); };
  return {
      {"allreduce", [](auto& t, auto& n) { allreduce(t, {n}); }, true},
      {"allreduce_", [](auto& t, auto& n) { allreduce_(t, {n}); }, true},
      {"allreduce_async", [](auto& t, auto& n) { allreduce_async(t, {n}).wait(); }, true},
      {"allreduce_async_", [](auto& t, auto& n) { allreduce_async_(t, {n}).wait(); }, true},
      {"grouped_allreduce",
       [=](auto& t, auto& n) {
         grouped_allreduce({one(), t}, n);
       },
       true},
      {"grouped_allreduce_",
       [=](auto& t, auto& n) {
         grouped_allreduce_({one(), t}, n);
       },
       true},
      {"reduce", [](auto& t, auto& n) { reduce(t, 0, {n}); }, true},
      {"reduce_", [](auto& t, auto& n) { reduce_(t, 0, {n}); }, true},
      {"reduce_async", [](auto& t, auto& n) { reduce_async(t, size() - 1, {n}).wait(); }, true},
      {"reduce_async_", [](auto& t, auto& n) { reduce_async_(t, size() - 1, {n}).wait(); }, true},
      {"broadcast", [](auto& t, auto& n) { broadcast(t, 0, n); }},
      {"broadcast_", [](auto& t, auto& n) { broadcast_(t, 0, n); }},
      {"broadcast_async", [](auto& t, auto& n) { broadcast_async(t, 0, n).wait(); }},
      {"grouped_broadcast",
       [=](auto& t, auto& n) {
         grouped_broadcast({one(), t}, 0, n);
       }},
      {"grouped_broadcast_",
       [=](auto& t, auto& n) {
         grouped_broadcast_({one(), t}, 0, n);
       }},
      {"allgather", [](auto& t, auto& n) { allgather(t, n); }, false, true},
      {"allgather_async", [](auto& t, auto& n) { allgather_async(t, n).wait(); }, false, true},
      {"grouped_allgather",
       [=](auto& t, auto& n) {
         grouped_allgather({one(), t}, n);
       },
       false, true},
      {"alltoall",
       [](auto& t, auto& n) {
         std::vector<std::int64_t> splits(static_cast<std::size_t>(size()), 0);
         splits.back() = 2;
         alltoall(t, splits, n);
       },
       false, true},
      {"alltoall_into",
       [](auto& t, auto& n) {
         std::vector<std::int64_t> splits(static_cast<std::size_t>(size()), 0);
         splits[static_cast<std::size_t>(rank())] = 2;
         alltoall_into(at::zeros({2}), t, splits, n);
       },
       false, true},
      {"allgather_into", [](auto& t, auto& n) { allgather_into(at::zeros({2 * size()}), t, n); },
       false, true},
      {"reducescatter_into",
       [](auto& t, auto& n) {
         reducescatter_into(at::zeros({2 / size() + (rank() < 2 % size() ? 1 : 0)}), t, n);
       },
       true, true},
      {"reducescatter", [](auto& t, auto& n) { reducescatter(t, n); }, true, true},
      {"grouped_reducescatter",
       [=](auto& t, auto& n) {
         grouped_reducescatter({one(), t}, n);
       },
       true, true},
  };
}

// `wrong` on the last rank against `right` on the others, then `right` everywhere.
void one_rank_cannot(const std::function<void()>& wrong, const std::function<void()>& right,
                     const std::string& why) {
  const int last = size() - 1;
  if (rank() == last) {
    EXPECT_THAT(message_of<InvalidArgumentError>(wrong), HasSubstr(why));
  } else {
    EXPECT_THAT(
        message_of<MismatchError>(right),
        AllOf(HasSubstr("rank " + std::to_string(last) + " could not take part"), HasSubstr(why)));
  }
  EXPECT_NO_THROW(right());
}

// All make the same mistake, which each sees by itself.
void no_rank_can(const std::function<void()>& wrong, const std::function<void()>& right,
                 const std::string& why) {
  EXPECT_THAT(message_of<InvalidArgumentError>(wrong),
              AllOf(HasSubstr(why), HasSubstr("on rank " + std::to_string(rank()))));
  EXPECT_NO_THROW(right());
}

struct Bad {
  at::Tensor tensor;
  std::string why;
};

std::vector<Bad> bad_tensors_for(const Kind& kind) {
  std::vector<Bad> all = {
      {at::Tensor(), "the tensor is undefined"},
      {at::ones({2}, at::device(at::kMeta)), "the tensor is on meta"},
      {at::ones({2}).to_sparse(), "only dense tensors are supported"},
      {at::ones({2}, at::kComplexHalf), "ComplexHalf is not supported"},
  };
  if (kind.reduces) all.push_back({at::ones({2}, at::kBool), "a bool tensor has no Average"});
  if (kind.has_rows) all.push_back({at::ones({}), "dimension"});
  return all;
}

TEST_F(Refusal, OfATensor) {
  for (const std::string name : {"x", ""}) {
    for (const Kind& kind : kinds()) {
      for (const Bad& bad : bad_tensors_for(kind)) {
        SCOPED_TRACE(std::string(kind.name) + " '" + name + "', " + bad.why);
        const auto wrong = [&] { kind.run(bad.tensor, name); };
        const auto right = [&] { kind.run(at::ones({2}), name); };
        one_rank_cannot(wrong, right, bad.why);
        no_rank_can(wrong, right, bad.why);
      }
    }
  }
}

TEST_F(Refusal, SaysWhichTensorOfAGroup) {
  for (const Kind& kind : kinds()) {
    if (std::string(kind.name).rfind("grouped", 0) != 0) continue;
    SCOPED_TRACE(kind.name);
    EXPECT_THAT(message_of<InvalidArgumentError>([&] { kind.run(at::ones({2}).to_sparse(), "x"); }),
                HasSubstr("tensor 1 of "));
    EXPECT_NO_THROW(kind.run(at::ones({2}), "x"));
  }
}

TEST_F(Refusal, OfOptions) {
  const at::Tensor t = at::ones({4});
  one_rank_cannot([&] { broadcast(t, size(), "x"); }, [&] { broadcast(t, 0, "x"); },
                  "root rank " + std::to_string(size()));
  one_rank_cannot([&] { reduce(t, size(), "x"); }, [&] { reduce(t, 0, "x"); },
                  "root rank " + std::to_string(size()));
  one_rank_cannot([&] { reduce_(t, -1, "x"); }, [&] { reduce_(t, 0, "x"); }, "root rank -1");
  one_rank_cannot([&] { broadcast_object(1, size(), "x"); }, [&] { broadcast_object(1, 0, "x"); },
                  "root rank " + std::to_string(size()));
  one_rank_cannot([&] { grouped_allreduce({}, "x"); }, [&] { grouped_allreduce({t}, "x"); },
                  "no tensors");
  one_rank_cannot([&] { allreduce(at::ones({2}, at::kInt), AllreduceOptions(ReduceOp::Adasum)); },
                  [&] { allreduce(at::ones({2}), AllreduceOptions(ReduceOp::Adasum)); },
                  "Adasum is for floating point");
  one_rank_cannot([&] { reducescatter(t, AllreduceOptions("x").op(ReduceOp::Adasum)); },
                  [&] { reducescatter(t, "x"); }, "no Adasum");
  one_rank_cannot(
      [&] {
        allreduce(at::ones({2}, at::kBool), AllreduceOptions(ReduceOp::Max).prescale_factor(2));
      },
      [&] { allreduce(at::ones({2}, at::kBool), AllreduceOptions(ReduceOp::Max)); },
      "cannot be scaled");
}

TEST_F(Refusal, OfSplits) {
  const at::Tensor rows = at::ones({size()});
  const std::vector<std::int64_t> good(static_cast<std::size_t>(size()), 1);
  const auto with = [&](const std::vector<std::int64_t>& splits) {
    return [&rows, splits] { alltoall(rows, splits, "x"); };
  };
  std::vector<std::int64_t> more = good;
  ++more.back();
  std::vector<std::int64_t> fewer = good;
  --fewer.back();
  std::vector<std::int64_t> negative = good;
  negative.back() = -1;
  std::vector<std::int64_t> longer = good;
  longer.push_back(0);
  one_rank_cannot(with(more), with(good), "do not share out");
  one_rank_cannot(with(fewer), with(good), "leave 1 of");
  one_rank_cannot(with(negative), with(good), "do not share out");
  one_rank_cannot(with(longer), with(good), "numbers, but there are");
  if (size() == 1) return;
  one_rank_cannot([] { alltoall(at::ones({size() + 1}), {}, "x"); }, with({}),
                  "cannot be split evenly");
}

TEST_F(Refusal, OfSparseTensorsAndObjects) {
  const at::Tensor sparse = at::ones({4}).to_sparse();
  one_rank_cannot([] { sparse_allreduce(at::ones({4}), "x"); },
                  [&] { sparse_allreduce(sparse, "x"); }, "not sparse");
  one_rank_cannot([&] { sparse_allreduce(sparse, AllreduceOptions("x").op(ReduceOp::Max)); },
                  [&] { sparse_allreduce(sparse, "x"); }, "have no Max");
  if (size() == 1) return;
  // A codec that throws where its bytes are needed.
  const auto give = [] { broadcast_object(Unwritable(), size() - 1, "x"); };
  if (rank() == size() - 1) {
    EXPECT_THAT(message_of<DataError>(give), HasSubstr("cannot be written"));
  } else {
    EXPECT_THAT(message_of<MismatchError>(give), HasSubstr("it cannot be written"));
  }
  EXPECT_EQ(broadcast_object(rank(), size() - 1, "x"), size() - 1);
}

TEST_F(Refusal, OfProcessSets) {
  one_rank_cannot([] { add_process_set({size()}); }, [] { add_process_set({0}); },
                  "is not between");
  one_rank_cannot([] { add_process_set({}); }, [] { add_process_set({0}); }, "needs a rank");
  one_rank_cannot([] { add_process_set({0, 0}); }, [] { add_process_set({0}); }, "comes twice");
  const ProcessSet set = add_process_set({0});
  one_rank_cannot([] { remove_process_set({}); }, [&] { remove_process_set(set); },
                  "all ranks are no set");
}

TEST_F(Refusal, OfMessagesBetweenTwo) {
  if (size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const int last = size() - 1;
  const at::Tensor bad = at::ones({2}).to_sparse();
  const at::Tensor good = at::ones({2});
  for (const std::string name : {"x", ""}) {
    if (rank() == last) {
      message_of<InvalidArgumentError>([&] { send(bad, 0, name); });
      message_of<InvalidArgumentError>([&] { recv(bad, 0, name); });
      message_of<InvalidArgumentError>([&] { sendrecv(good, 0, bad, 0, name); });
      EXPECT_NO_THROW(send(good, 0, name));
    } else if (rank() == 0) {
      EXPECT_THAT(message_of<MismatchError>([&] { recv(good, last, name); }),
                  HasSubstr("only dense"));
      EXPECT_THAT(message_of<MismatchError>([&] { send(good, last, name); }),
                  HasSubstr("only dense"));
      Handle receiving = recv_async_(good.clone(), last, name);
      message_of<MismatchError>([&] { send(good, last, name); });
      message_of<MismatchError>([&] { receiving.wait(); });
      EXPECT_TRUE(recv(good, last, name).equal(good));
    }
    barrier();
  }
}

// Autograd has seen no change.
TEST_F(Refusal, LeavesTheTensorsVersion) {
  const at::Tensor t = at::ones({2}, at::kComplexHalf);
  const auto before = t._version();
  EXPECT_THROW(allreduce_(t, "x"), InvalidArgumentError);
  EXPECT_THROW(grouped_broadcast_({t}, 0, "x"), InvalidArgumentError);
  EXPECT_EQ(t._version(), before);
  const at::Tensor good = at::ones({2});
  allreduce_(good, "x");
  EXPECT_GT(good._version(), 0);
}

}  // namespace
}  // namespace kolo
