// Plans the batches that a loader process loads before a rank asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "delivery/message.hpp"
#include "delivery/spool.hpp"

namespace kolo::delivery {

// Returns the loader that a rank asks first for a batch of its share (the batch's home). Ranks and
// loaders compute the same, so a batch is prepared where it will be requested.
std::size_t home_of(std::uint64_t batch, std::uint32_t rank, std::size_t loaders);

// The batches of a registered loader.
struct BatchPlan {
  std::string loader;
  std::size_t batch_size = 1;
  bool drop_last = false;
  // Returns the share of a rank in an epoch, in order.
  std::function<std::vector<std::size_t>(std::uint32_t rank, std::uint64_t epoch)> share;
};

// A batch of a rank's share.
struct PlannedBatch {
  std::uint32_t rank = 0;
  Request request;
};

// Chooses the batches that a loader prepares: those whose home it is, in the order in which the
// ranks will ask for them. Together, all loaders prepare up to `units` samples of each registered
// loader. Follows ranks that move to another place: another epoch, or a later position. The caller
// holds one lock for all calls.
class Preparation {
 public:
  struct Options {
    std::size_t loader = 0;  // the number of this one
    std::size_t loaders = 1;
    std::uint32_t ranks = 1;
    std::size_t units = 0;
  };
  Preparation(const Options& options, std::vector<BatchPlan> plans);

  // Returns the next batch to prepare; std::nullopt if enough are waiting. The caller then calls
  // put() or give_up().
  std::optional<PlannedBatch> next();
  // Takes a batch that next() returned. Returns std::nullopt if the batch now waits. Otherwise
  // returns it, because its rank asked for it meanwhile, under the id `wanted_as`, or because
  // nobody needs it any more.
  struct Unneeded {
    std::optional<std::uint64_t> wanted_as;
    Spool::Kept batch;
  };
  std::optional<Unneeded> put(const PlannedBatch& planned, Spool::Kept batch);
  // Reports that a batch could not be loaded. Returns the id under which its rank asked for it
  // meanwhile, if any.
  std::optional<std::uint64_t> give_up(const PlannedBatch& planned);

  // Handles a rank's request for a batch. kNow: the batch is prepared, and returned in `batch`.
  // kSoon: it is being loaded, and put() or give_up() will return the id.
  enum class Found : std::uint8_t { kNot, kNow, kSoon };
  struct Answer {
    Found found = Found::kNot;
    std::optional<Spool::Kept> batch;
  };
  Answer ask(std::uint32_t rank, const Request& request, std::uint64_t id);

  // Stops preparing batches of this loader until a rank asks for one.
  void withdraw(const std::string& loader);

 private:
  struct Place {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Entry {
    std::vector<std::uint64_t> samples;
    std::optional<Spool::Kept> batch;  // without a value: it is being loaded
    std::optional<std::uint64_t> wanted_as;
  };
  struct Cursor {
    Place next;  // nothing before it will be prepared
    std::optional<std::uint64_t> epoch;
    std::vector<std::size_t> share;  // of `epoch`
    std::map<Place, Entry> entries;
  };
  struct Course {
    BatchPlan plan;
    std::vector<Cursor> cursors;  // by rank
    std::size_t waiting = 0;      // samples that are prepared or being loaded
    bool is_active = true;
  };

  Course* course_of(const std::string& loader);
  std::optional<PlannedBatch> next_of(Course& course);
  bool go_home(const Course& course, std::uint32_t rank, Cursor& cursor) const;
  static void drop_stale(Course& course, Cursor& cursor, const Place& asked);
  static void erase(Course& course, Cursor& cursor, std::map<Place, Entry>::iterator entry);

  const Options options_;
  const std::size_t units_;  // the part of `units` for this process
  std::vector<Course> courses_;
};

}  // namespace kolo::delivery
