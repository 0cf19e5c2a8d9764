// The messages between training ranks and loaders.
#include "delivery/message.hpp"

#include <gtest/gtest.h>

#include "delivery/connection.hpp"

namespace kolo::delivery {
namespace {

Welcome some_welcome() {
  return {3, {{"train", 60000, 2, "batch_size 64"}, {"", 0, 0, ""}}};
}

BatchPlaces some_places() {
  return {2, 4096, {{ElementType::kFloat32, {4, 3}, 0}, {ElementType::kInt64, {4}, 64}}};
}

template <typename Message>
void expect_kept(const Message& message) {
  EXPECT_EQ(decode<Message>(encode(message)), message);
}

TEST(DeliveryMessage, ComesOutAsItWentIn) {
  expect_kept(Hello{"secret", 7});
  expect_kept(Request{"train", 3, 128, {5, 0, ~std::uint64_t{0}}});
  expect_kept(Request{});
  expect_kept(Release{{1, 0xffffffffU}});
  expect_kept(Withdraw{"train"});
  expect_kept(some_welcome());
  expect_kept(some_places());
  expect_kept(Failure{"no such sample"});
}

// Cut short, or with a byte more, it is refused.
template <typename Message>
void expect_whole(const Message& message) {
  Bytes bytes = encode(message);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode<Message>(std::span(bytes).first(size))) << size;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode<Message>(bytes));
}

TEST(DeliveryMessage, PartsOfMessagesAreRefused) {
  expect_whole(Hello{"secret", 7});
  expect_whole(Request{"train", 3, 128, {5, 0}});
  expect_whole(some_welcome());
  expect_whole(some_places());
}

TEST(DeliveryMessage, ArraysBeyondTheMemoryAreRefused) {
  const auto is_accepted = [](const BatchPlaces& places) {
    return decode<BatchPlaces>(encode(places)).has_value();
  };
  BatchPlaces places = some_places();
  EXPECT_TRUE(is_accepted(places));
  places.size = 95;  // the second array ends at 96
  EXPECT_FALSE(is_accepted(places));
  places = some_places();
  places.arrays[1].offset = 4096 - 24;
  EXPECT_FALSE(is_accepted(places));
  places.arrays[1].offset = ~std::uint64_t{0} - 7;
  EXPECT_FALSE(is_accepted(places));
  places = some_places();
  places.arrays[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_FALSE(is_accepted(places));
  places.arrays[0].shape = std::vector<std::int64_t>(65, 1);
  EXPECT_FALSE(is_accepted(places));
  places = some_places();
  places.arrays[1].offset = 65;  // an int64 must not begin there
  EXPECT_FALSE(is_accepted(places));
  places = some_places();
  places.arrays.resize(17);
  EXPECT_FALSE(is_accepted(places));
}

TEST(DeliveryMessage, Heads) {
  const FrameHead head{FrameKind::kBatch, 77, 0x123456789abcdefULL, 1 << 20};
  Bytes bytes = encode(head);
  ASSERT_EQ(bytes.size(), kHeadBytes);
  const auto decoded = decode_head(std::span(bytes).first<kHeadBytes>());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->kind, head.kind);
  EXPECT_EQ(decoded->body, head.body);
  EXPECT_EQ(decoded->id, head.id);
  EXPECT_EQ(decoded->payload, head.payload);
  for (const int kind : {0, 8, 255}) {
    bytes[0] = static_cast<std::byte>(kind);
    EXPECT_FALSE(decode_head(std::span(bytes).first<kHeadBytes>())) << kind;
  }
  bytes[0] = std::byte{6};
  bytes[7] = std::byte{0x80};  // 2 GiB of body
  EXPECT_FALSE(decode_head(std::span(bytes).first<kHeadBytes>()));
}

TEST(DeliveryMessage, Addresses) {
  const Address address{"node1.cluster", 4711, "boot/net:[4026]", "kolo-loader-1"};
  EXPECT_EQ(to_address(to_text(address)), address);
  const Address ipv6{"fe80::1", 80, "", ""};
  EXPECT_EQ(to_address(to_text(ipv6)), ipv6);
  for (const char* text : {"", "node1", "node1:80", "node1:80,m", ":80,m,n", "node1:0,m,n",
                           "node1:65536,m,n", "node1:8x,m,n", "node1:,m,n", ",m:80,n"}) {
    EXPECT_FALSE(to_address(text)) << text;
  }
}

}  // namespace
}  // namespace kolo::delivery
