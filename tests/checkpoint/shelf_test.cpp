#include "checkpoint/shelf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/memory_files.hpp"
#include "checkpoint/saved_state.hpp"

namespace kolo::checkpoint::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Folder, NamesAndSteps) {
  EXPECT_EQ(file_name("c", 12), "c-000000012.h5");
  EXPECT_EQ(file_name("c", 1234567890123), "c-1234567890123.h5");
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{12}, std::int64_t{999999999},
                                  std::int64_t{1000000000}, INT64_MAX})
    EXPECT_EQ(step_of(file_name("c", step), "c"), step);
  for (const char* other :
       {"c-12.h5", "c-000000012.h5.partial", "d-000000012.h5", "c-00000001x.h5", "c-000000012", "",
        "c-0000000012.h5", "c--00000012.h5", "c-99999999999999999999.h5", "cc-000000012.h5"})
    EXPECT_EQ(step_of(other, "c"), std::nullopt) << other;
}

TEST(Folder, WhatStays) {
  const std::vector<std::int64_t> steps = {10, 20, 30, 40, 50, 60};
  const std::map<std::int64_t, double> metrics = {{10, 0.1},          {20, 0.5}, {30, 0.3},
                                                  {40, std::nan("")}, {50, 0.3}, {60, 0.9}};
  EXPECT_THAT(removable(steps, 60, metrics, {.last = 0, .best = 1}), IsEmpty());
  EXPECT_THAT(removable(steps, 60, metrics, {.last = 2}), UnorderedElementsAre(10, 20, 30, 40));
  EXPECT_THAT(removable(steps, 60, metrics, {.last = 1, .every = 30}),
              UnorderedElementsAre(10, 20, 40, 50));
  EXPECT_THAT(removable(steps, 60, metrics, {.last = 1, .best = 2}),
              UnorderedElementsAre(20, 30, 40));
  EXPECT_THAT(removable(steps, 60, metrics, {.last = 1, .best = 2, .higher_is_better = true}),
              UnorderedElementsAre(10, 30, 40, 50));
  EXPECT_THAT(removable(steps, 60, metrics, {.last = 9}), IsEmpty());
  // Later ones neither go nor count.
  EXPECT_THAT(removable(steps, 30, metrics, {.last = 1}), UnorderedElementsAre(10, 20));
  EXPECT_THAT(removable(steps, 5, metrics, {.last = 1}), IsEmpty());
}

TEST(Shelf, KeepsTheLastAndTheBestAcrossProcesses) {
  MemoryFiles files;
  {
    Shelf shelf(files, "f", "c", {.last = 10});
    // Their metric is step % 7: 5, 3, 1, 6.
    for (const std::int64_t step : {5, 10, 15, 20}) save_small(files, shelf, step);
  }
  Shelf shelf(files, "f", "c",
              {.last = 1, .best = 1});  // another process: metrics are in the files
  save_small(files, shelf, 25);
  EXPECT_THAT(files.list("f"), UnorderedElementsAre(file_name("c", 15), file_name("c", 25)));
}

// Its metric is not known, so it may be the best one.
TEST(Shelf, WhatCannotBeReadStaysWhereTheBestDo) {
  MemoryFiles files;
  files.make_folder("f");
  files.set_content("f/" + file_name("c", 1), {1});
  for (const std::int64_t best : {1, 0}) {
    Shelf shelf(files, "f", "c", {.last = 1, .best = best});
    save_small(files, shelf, 2 + best);
    save_small(files, shelf, 5);
    EXPECT_EQ(files.list("f").front() == file_name("c", 1), best == 1) << best;
  }
}

TEST(Shelf, TakesAwayOnlyItsOwn) {
  MemoryFiles files;
  files.make_folder("f");
  for (const char* name : {"f/c-000000001.h5.partial", "f/d-000000001.h5.partial",
                           "f/c-000000001.h5", "f/d-000000001.h5", "f/notes.txt", "f/c-1.h5"})
    files.set_content(name, {1});
  Shelf shelf(files, "f", "c", {.last = 1});
  save_small(files, shelf, 2);
  EXPECT_THAT(files.list("f"), UnorderedElementsAre("d-000000001.h5.partial", "d-000000001.h5",
                                                    "notes.txt", "c-1.h5", file_name("c", 2)));
}

TEST(Folder, ListsNewestFirst) {
  MemoryFiles files;
  files.make_folder("f");
  for (const std::int64_t step : {3, 1000000000, 7})
    files.set_content("f/" + file_name("c", step), {});
  std::vector<std::int64_t> steps;
  for (const Saved& saved : list_checkpoints(files, "f", "c")) steps.push_back(saved.step);
  EXPECT_THAT(steps, ElementsAre(1000000000, 7, 3));
}

}  // namespace
}  // namespace kolo::checkpoint::test
