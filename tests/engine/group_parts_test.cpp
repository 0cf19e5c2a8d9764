// The parts of a group that share operations with the mailbox: places in buckets, and ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/local/transport.hpp"
#include "collectives/messages/backend.hpp"
#include "engine/bucket_layout.hpp"
#include "engine/bucket_table.hpp"
#include "engine/completion.hpp"
#include "timeline/tracing.hpp"

namespace kolo {
namespace {

std::shared_ptr<Operation> operation(const std::string& name, std::vector<float>& values) {
  auto made = std::make_shared<Operation>();
  made->name = name;
  made->descriptor.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(values.size())}}};
  made->tensors = {{values.data(), 0}};
  return made;
}

// Whether the mailbox packs a tensor of this name when it is submitted.
bool is_packed(Mailbox& mailbox, const std::string& name) {
  std::vector<float> values(4, 1.0F);
  const std::shared_ptr<Operation> submitted = operation(name, values);
  bool packed = false;
  EXPECT_TRUE(mailbox.submit(submitted, packed).is_ok());
  mailbox.release({submitted.get()});
  return packed;
}

TEST(BucketTable, MembersHavePlacesUntilTheBucketEnds) {
  Parking parking(std::chrono::hours(1), nullptr);
  Mailbox mailbox(parking);
  const auto transports = make_local_transports(1);
  const auto backend = make_message_backend(*transports[0], 1, {});
  Descriptor descriptor;
  descriptor.tensors = {{DType::kFloat32, {4}}};
  for (const bool is_destroyed : {false, true}) {
    std::optional<BucketTable> table(std::in_place, 0, mailbox);
    table->begin({7, {{"a", descriptor}, {"b", descriptor}}}, *backend);
    ASSERT_NE(table->find(7), nullptr);
    EXPECT_EQ(table->find(8), nullptr);
    EXPECT_TRUE(is_packed(mailbox, "a"));
    EXPECT_TRUE(is_packed(mailbox, "b"));
    EXPECT_FALSE(is_packed(mailbox, "c"));
    if (is_destroyed) {
      table.reset();
    } else {
      table->end(7);
      EXPECT_EQ(table->find(7), nullptr);
    }
    EXPECT_FALSE(is_packed(mailbox, "a"));
    EXPECT_FALSE(is_packed(mailbox, "b"));
  }
}

// More members than end at a time. Placeholders have no end.
TEST(Completion, EachMemberEndsOnce) {
  constexpr int kMembers = 70;
  Parking parking(std::chrono::hours(1), nullptr);
  Mailbox mailbox(parking);
  timeline::Tracing tracing;
  OperationRecorder recorder(0, {0}, tracing);
  Completion completion(mailbox, recorder);
  std::vector<float> values(4, 1.0F);
  std::vector<int> finished(kMembers, 0);
  std::vector<LaunchMember> members;
  for (int i = 0; i < kMembers; ++i) {
    const std::shared_ptr<Operation> member = operation("x" + std::to_string(i), values);
    member->placeholder = i == 3;
    member->finish = [&finished, i] {
      ++finished[static_cast<std::size_t>(i)];
      if (i == 40) throw std::runtime_error("no memory is left");
    };
    bool packed = false;
    ASSERT_TRUE(member->placeholder || mailbox.submit(member, packed).is_ok());
    members.push_back({member, false});
  }
  completion.end(members);
  for (int i = 0; i < kMembers; ++i) {
    const Operation& member = *members[static_cast<std::size_t>(i)].operation;
    EXPECT_EQ(finished[static_cast<std::size_t>(i)], i == 3 ? 0 : 1) << "member " << i;
    EXPECT_EQ(member.done(), i != 3) << "member " << i;
    EXPECT_EQ(member.status().is_ok(), i != 40) << "member " << i;
  }
  // The 68 that succeeded are counted once each.
  const auto kind = static_cast<std::size_t>(OpKind::kAllreduce);
  EXPECT_EQ(tracing.measures().operations[kind], kMembers - 2U);
}

TEST(BucketLayout, Aligns) {
  const BucketLayout layout = layout_bucket({4, 64, 65, 1});
  EXPECT_EQ(layout.offsets, (std::vector<std::size_t>{0, 64, 128, 256}));
  EXPECT_EQ(layout.bytes, 320U);
}

}  // namespace
}  // namespace kolo
