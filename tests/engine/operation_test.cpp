#include "engine/operation.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "engine/holding.hpp"

namespace kolo {
namespace {

std::shared_ptr<Operation> filled(const std::shared_ptr<int>& kept) {
  std::shared_ptr<Operation> operation = Operation::make();
  operation->name = "a name that is too long to lie in the string itself";
  operation->process_set = 3;
  operation->descriptor.kind = OpKind::kAlltoall;
  operation->descriptor.tensors = {{DType::kInt8, {2, 3}, "named"}};
  operation->descriptor.op = ReduceOp::Max;
  operation->descriptor.root = 1;
  operation->descriptor.destination = 2;
  operation->descriptor.prescale = 3;
  operation->descriptor.postscale = 4;
  operation->descriptor.refusal = "refused";
  operation->tensors = {{nullptr, 5}};
  operation->splits = {1, 2};
  operation->make_result = [kept](std::size_t, const std::vector<std::int64_t>&) {
    return kept.get();
  };
  operation->holder = std::make_unique<Holding<int>>(kept);
  operation->absent = operation->transient = operation->placeholder = true;
  operation->finish = [kept] {};
  operation->packed_at.emplace();
  operation->number = 7;
  operation->wanted = operation->queued = true;
  return operation;
}

TEST(Operation, OneThatIsUsedAgainIsAsNew) {
  const std::shared_ptr<Operation> busy = Operation::make();
  const Operation* const used = filled(std::make_shared<int>()).get();
  std::shared_ptr<Operation> again = Operation::make();
  for (int tried = 0; again.get() != used; ++tried) {
    ASSERT_LT(tried, 40000) << "nothing is used again";
    ASSERT_NE(again, busy) << "it is in use";
    again->complete(Status::internal("failed"), true);
    again = Operation::make();
  }
  EXPECT_EQ(again->name, "");
  EXPECT_EQ(again->process_set, 0);
  EXPECT_EQ(again->descriptor, Descriptor());
  EXPECT_TRUE(again->tensors.empty() && again->splits.empty());
  EXPECT_TRUE(!again->make_result && !again->finish && !again->packed_at);
  EXPECT_FALSE(again->absent || again->transient || again->placeholder);
  EXPECT_FALSE(again->wanted || again->queued || again->booked != nullptr);
  EXPECT_EQ(again->number, -1);
  EXPECT_FALSE(again->done() || again->absent_everywhere());
  EXPECT_TRUE(again->status().is_ok());
}

// As at the end of the process, when thread-local objects are gone before others that use kolo.
TEST(Operation, IsMadeAlsoWhileAThreadEnds) {
  struct AtTheEnd {
    ~AtTheEnd() { EXPECT_NE(Operation::make(), Operation::make()); }
  };
  std::thread([] {
    static thread_local const AtTheEnd at_the_end;
    EXPECT_NE(&at_the_end, nullptr);
    for (int i = 0; i < 3; ++i) Operation::make();
  }).join();
}

TEST(Operation, ThoseInUseAreAllDifferent) {
  std::vector<std::shared_ptr<Operation>> held;
  std::set<const Operation*> different;
  for (int i = 0; i < 20000; ++i) {
    held.push_back(Operation::make());
    different.insert(held.back().get());
  }
  EXPECT_EQ(different.size(), held.size());
}

TEST(Operation, AfterASuccessItKeepsNothingAliveAndAfterAFailureAllThatItWasGiven) {
  for (const bool success : {true, false}) {
    const auto kept = std::make_shared<int>();
    const std::shared_ptr<Operation> operation = filled(kept);
    operation->complete(success ? Status::ok() : Status::peer_lost("gone"), false);
    EXPECT_EQ(kept.use_count() == 1, success);
  }
}

}  // namespace
}  // namespace kolo
