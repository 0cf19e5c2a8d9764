// What kolo run tells a loader process.
#include "core/loader_place.hpp"

#include <gtest/gtest.h>

namespace kolo {
namespace {

LoaderPlace some_place() {
  LoaderPlace place;
  place.number = 1;
  place.count = 3;
  place.ranks = 16;
  place.units = 50'000;
  place.memory_bytes = std::uint64_t{1} << 40U;
  place.ready = 12;
  place.listeners = {10, 11};
  place.spool = "/scratch/my folder=x";
  return place;
}

TEST(LoaderPlace, ComesOutAsItWentIn) {
  EXPECT_EQ(to_loader_place(to_text(some_place())), some_place());
  LoaderPlace bare = some_place();
  bare.listeners.clear();
  bare.spool.clear();
  bare.ready = -1;
  EXPECT_EQ(to_loader_place(to_text(bare)), bare);
}

TEST(LoaderPlace, MalformedTextsAreRefused) {
  const std::string text = to_text(some_place());
  EXPECT_FALSE(to_loader_place(""));
  EXPECT_FALSE(to_loader_place("yes"));
  EXPECT_FALSE(to_loader_place(text.substr(0, text.find(" spool"))));
  EXPECT_FALSE(to_loader_place(text.substr(text.find("count"))));
  LoaderPlace wrong = some_place();
  wrong.number = 3;  // of 3
  EXPECT_FALSE(to_loader_place(to_text(wrong)));
  wrong = some_place();
  wrong.ranks = 0;
  EXPECT_FALSE(to_loader_place(to_text(wrong)));
}

}  // namespace
}  // namespace kolo
