// Handles that are dropped, and names that are in flight.
#include <functional>
#include <optional>
#include <thread>

#include "fixture.hpp"

namespace kolo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::message_of;
using testing_support::WithKolo;

using Async = WithKolo;
using Tensors = std::vector<at::Tensor>;

// Submits an operation on a tensor of `size()` elements and drops the handle.
struct Kind {
  const char* name;
  std::function<void(const at::Tensor&, const std::string&)> submit;
  bool changes = false;  // in place: to the sum, or to rank 0's
};

template <typename Handle>
void drop(Handle handle) {
  static_cast<void>(handle);
}

// --- tensors that change in flight ---

TEST_F(Async, ATensorThatChangesInFlightIsNamed) {
  const auto changed = [](auto handle, at::Tensor tensor) {
    tensor.add_(1);
    return message_of<InvalidArgumentError>([&] { handle.wait(); });
  };
  for (const std::int64_t extent : {3, 100000}) {
    at::Tensor a = torch::ones({extent});
    at::Tensor b = torch::ones({extent});
    const char* text = "changed before wait() returned";
    EXPECT_THAT(changed(allreduce_async_(a, AllreduceOptions("sum")), a),
                AllOf(HasSubstr(text), HasSubstr("allreduce of 'sum' on rank " +
                                                 std::to_string(rank()) + ": the tensor")));
    EXPECT_THAT(changed(grouped_allreduce_async_({a, b}), b),
                AllOf(HasSubstr(text), HasSubstr("tensor 1 of the group")));
    EXPECT_THAT(changed(broadcast_async_(a, 0), a), HasSubstr(text));
    EXPECT_THAT(changed(grouped_broadcast_async_({a, b}, 0), a), HasSubstr("tensor 0"));
  }
}

// Changes that do not touch a tensor in flight, and changes that kolo makes itself.
TEST_F(Async, OtherChangesAreNoErrors) {
  const std::int64_t n = 1000;
  const at::Tensor all = torch::ones({2 * n});
  at::Tensor half = all.narrow(0, 0, n);
  Handle handle = allreduce_async_(half);
  all.narrow(0, n, n).add_(5);  // the other half
  EXPECT_TRUE(handle.wait().equal(torch::ones({n})));
  EXPECT_TRUE(all.narrow(0, n, n).equal(torch::full({n}, 6.0)));

  at::Tensor counts = torch::full({n}, rank() + 1, at::kLong);  // averaged on a copy
  EXPECT_TRUE(allreduce_async_(counts).wait().equal(torch::full({n}, (size() + 1) / 2)));
  at::Tensor columns = torch::ones({n, 4}).slice(1, 0, 4, 2);  // copied, too
  EXPECT_TRUE(allreduce_async_(columns).wait().equal(torch::ones({n, 2})));

  at::Tensor twice = torch::ones({n});  // a second call is refused, and has changed nothing
  std::optional<Handle> first;
  if (rank() == 0) first = allreduce_async_(twice, "the same name");
  if (rank() == 0 && size() > 1) {
    EXPECT_THROW(drop(allreduce_async_(twice, "the same name")), DuplicateNameError);
  }
  barrier();
  if (rank() != 0) first = allreduce_async_(twice, "the same name");
  EXPECT_TRUE(first->wait().equal(torch::ones({n})));

  at::Tensor polled = torch::ones({n});
  Handle ended = allreduce_async_(polled);
  while (!ended.ready()) std::this_thread::yield();
  polled.mul_(2);  // the program's, for the operation has ended
  EXPECT_TRUE(ended.wait().equal(torch::full({n}, 2.0)));

  at::Tensor sent = torch::ones({n});
  Handle once = broadcast_async_(sent, 0);
  Handle more = broadcast_async(sent, 0);
  EXPECT_NO_THROW(once.wait());
  EXPECT_NO_THROW(more.wait());
  if (rank() == 0) {  // the root's tensor is only read
    Handle one = broadcast_async_(sent, 0, "one");
    Handle other = broadcast_async_(sent, 0, "other");
    EXPECT_NO_THROW(one.wait());
    EXPECT_NO_THROW(other.wait());
  } else {
    at::Tensor a = torch::zeros({n});
    at::Tensor b = torch::zeros({n});
    Handle one = broadcast_async_(a, 0, "one");
    Handle other = broadcast_async_(b, 0, "other");
    EXPECT_TRUE(one.wait().equal(other.wait()));
  }

  Handle again = allreduce_async_(counts, AllreduceOptions().op(ReduceOp::Max));
  again.wait();
  counts.add_(1);  // the program's again
  EXPECT_TRUE(again.wait().is_same(counts));
}

std::vector<Kind> kinds() {
  const auto sum = [](const std::string& name) { return AllreduceOptions(name).op(ReduceOp::Sum); };
  return {
      {"allreduce_async", [=](auto& t, auto& n) { drop(allreduce_async(t, sum(n))); }},
      {"allreduce_async_", [=](auto& t, auto& n) { drop(allreduce_async_(t, sum(n))); }, true},
      {"grouped_allreduce_async",
       [=](auto& t, auto& n) {
         drop(grouped_allreduce_async({t, t}, sum(n)));
       }},
      {"grouped_allreduce_async_",
       [=](auto& t, auto& n) { drop(grouped_allreduce_async_({t}, sum(n))); }, true},
      {"reduce_async", [=](auto& t, auto& n) { drop(reduce_async(t, 0, sum(n))); }},
      {"broadcast_async", [](auto& t, auto& n) { drop(broadcast_async(t, 0, n)); }},
      {"broadcast_async_", [](auto& t, auto& n) { drop(broadcast_async_(t, 0, n)); }, true},
      {"grouped_broadcast_async",
       [](auto& t, auto& n) { drop(grouped_broadcast_async({t}, 0, n)); }},
      {"grouped_broadcast_async_",
       [](auto& t, auto& n) { drop(grouped_broadcast_async_({t}, 0, n)); }, true},
      {"allgather_async", [](auto& t, auto& n) { drop(allgather_async(t, n)); }},
      {"grouped_allgather_async",
       [](auto& t, auto& n) {
         drop(grouped_allgather_async({t, t}, n));
       }},
      {"alltoall_async", [](auto& t, auto& n) { drop(alltoall_async(t, {}, n)); }},
      {"reducescatter_async", [](auto& t, auto& n) { drop(reducescatter_async(t, n)); }},
      {"allgather_into_async",
       [](auto& t, auto& n) {
         drop(allgather_into_async(at::empty({size() * size()}, t.options()), t, n));
       }},
      {"alltoall_into_async",
       [](auto& t, auto& n) {
         drop(alltoall_into_async(at::empty({size()}, t.options()), t, {}, n));
       }},
      {"reducescatter_into_async",
       [](auto& t, auto& n) { drop(reducescatter_into_async(at::empty({1}, t.options()), t, n)); }},
      {"grouped_reducescatter_async",
       [](auto& t, auto& n) {
         drop(grouped_reducescatter_async({t, t}, n));
       }},
      {"sparse_allreduce_async",
       [](auto& t, auto& n) { drop(sparse_allreduce_async(t.to_sparse(), n)); }},
      {"send_async and recv_async_",
       [](auto& t, auto& n) {
         if (rank() == 0 && size() > 1) drop(send_async(t, size() - 1, n));
         if (rank() == size() - 1 && size() > 1) drop(recv_async_(t, 0, n));
       }},
  };
}

// The memory of handles and tensors is kolo's alone until the operations end.
TEST_F(Async, HandlesAndTensorsMayBeDropped) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    for (int i = 0; i < 50; ++i) kind.submit(at::ones({size()}), kind.name + std::to_string(i));
    const at::Tensor kept = at::full({size()}, rank() + 1.0F);
    const std::string name = std::string(kind.name) + " kept";
    kind.submit(kept, name);
    barrier();
    if (!kind.changes) continue;
    // The barrier does not wait for it, but the name tells when it has ended.
    while (true) {
      try {
        allreduce(at::ones({1}), name);
        break;
      } catch (const DuplicateNameError&) {
      }
    }
    const bool summed = std::string(kind.name).find("allreduce") != std::string::npos;
    const double wanted = summed ? size() * (size() + 1) / 2.0 : 1.0;
    EXPECT_TRUE(kept.equal(at::full({size()}, static_cast<float>(wanted)))) << kept;
  }
}

TEST_F(Async, ADroppedErrorIsNobodys) {
  if (size() < 2) GTEST_SKIP() << "needs 2 ranks";
  for (const Kind& kind : kinds()) {
    if (std::string(kind.name).find("send") != std::string::npos) continue;
    SCOPED_TRACE(kind.name);
    kind.submit(at::ones({size()}, rank() == 0 ? at::kFloat : at::kDouble), kind.name);
    EXPECT_EQ(allreduce(at::ones({1}), ReduceOp::Sum).item<float>(), size());
  }
}

TEST_F(Async, ShutdownWithDroppedHandles) {
  for (const Kind& kind : kinds()) {
    for (int i = 0; i < 5; ++i) kind.submit(at::ones({size()}), std::to_string(i));
    shutdown();
    init();
  }
  EXPECT_EQ(allreduce(at::ones({1}), ReduceOp::Sum).item<float>(), size());
}

// The other ranks come only when `who` has tried the name twice.
TEST_F(Async, ANameInFlightIsRefusedOnAnyRank) {
  if (size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const at::Tensor go = at::zeros({1});
  for (const Kind& kind : kinds()) {
    if (std::string(kind.name).find("send") != std::string::npos) continue;
    for (int who = 0; who < size(); ++who) {
      SCOPED_TRACE(std::string(kind.name) + " on rank " + std::to_string(who));
      if (rank() != who) broadcast(go, who, "go");
      const at::Tensor t = at::ones({size()});
      kind.submit(t, "twice");
      if (rank() == who) {
        EXPECT_THAT(message_of<DuplicateNameError>([&] { kind.submit(t, "twice"); }),
                    HasSubstr("'twice'"));
        broadcast(go, who, "go");
      }
      // As many as there are ranks: each waits for the one before to end.
      EXPECT_EQ(allreduce(at::ones({1}), ReduceOp::Sum).item<float>(), size());
      barrier();
      while (true) {
        try {
          kind.submit(at::ones({size()}), "twice");
          break;
        } catch (const DuplicateNameError&) {
        }
      }
      barrier();
      const bool same = std::string(kind.name).find("broadcast") != std::string::npos;
      EXPECT_TRUE(!same || t.equal(at::ones({size()})));
      shutdown();
      init();
    }
  }
}

// More elements than 32 bits count, in tensors that need no memory.
TEST_F(Async, MoreElementsThan32BitsCount) {
  const std::int64_t rows = (std::int64_t{1} << 31) + 5;
  const at::Tensor huge = at::empty({rows, 0});
  EXPECT_EQ(allreduce(huge).size(0), rows);
  EXPECT_EQ(broadcast(huge, 0).size(0), rows);
  EXPECT_EQ(allgather(huge).size(0), rows * size());
  EXPECT_EQ(grouped_allgather({huge, huge})[1].size(0), rows * size());
  std::vector<std::int64_t> splits(static_cast<std::size_t>(size()), 0);
  splits[0] = rows;
  const AlltoallResult result = alltoall(huge, splits);
  EXPECT_EQ(result.output.size(0), rank() == 0 ? rows * size() : 0);
  EXPECT_EQ(result.received_splits.back(), rank() == 0 ? rows : 0);
  const std::int64_t share = rows / size() + (rank() < rows % size() ? 1 : 0);
  EXPECT_EQ(reducescatter(huge).size(0), share);
}

}  // namespace
}  // namespace kolo
