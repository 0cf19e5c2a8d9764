// The batches that a loader process loads before a rank asks for them.
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

// The loader that a rank asks first for a batch of its share. Ranks and loaders agree on it, so
// that a batch is prepared where it will be asked for.
std::size_t home_of(std::uint64_t batch, std::uint32_t rank, std::size_t loaders);

// The batches of a registered loader.
struct BatchPlan {
  std::string loader;
  std::size_t batch_size = 1;
  bool drop_last = false;
  // The share of a rank in an epoch, in its order.
  std::function<std::vector<std::size_t>(std::uint32_t rank, std::uint64_t epoch)> share;
};

// A batch of a rank's share.
struct PlannedBatch {
  std::uint32_t rank = 0;
  Request request;
};

// Decides which batches a loader prepares: those at home here, in the order in which the ranks will
// ask for them, until `units` samples of each registered loader wait, all loaders together. Follows
// the ranks when they go elsewhere: to another epoch, or ahead of it. Used under one lock.
class Preparation {
 public:
  struct Options {
    std::size_t loader = 0;  // this one's number
    std::size_t loaders = 1;
    std::uint32_t ranks = 1;
    std::size_t units = 0;
  };
  Preparation(const Options& options, std::vector<BatchPlan> plans);

  // The next batch to prepare; std::nullopt: enough are waiting. The caller then calls put() or
  // give_up().
  std::optional<PlannedBatch> next();
  // A batch that next() returned. std::nullopt: it waits now. Otherwise it is given back, because
  // its rank asked for it meanwhile and wants it now, under this id, or it is not needed any more.
  struct Unneeded {
    std::optional<std::uint64_t> wanted_as;
    Spool::Kept batch;
  };
  std::optional<Unneeded> put(const PlannedBatch& planned, Spool::Kept batch);
  // It could not be loaded. The id under which its rank asked for it meanwhile, if it has.
  std::optional<std::uint64_t> give_up(const PlannedBatch& planned);

  // A rank asks for a batch. kNow: it was prepared, and `batch` is it. kSoon: it is being loaded,
  // and put() or give_up() will return the id.
  enum class Found : std::uint8_t { kNot, kNow, kSoon };
  struct Answer {
    Found found = Found::kNot;
    std::optional<Spool::Kept> batch;
  };
  Answer ask(std::uint32_t rank, const Request& request, std::uint64_t id);

  // Nobody needs batches of this loader any more, until somebody asks for one.
  void withdraw(const std::string& loader);

 private:
  struct Place {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Entry {
    std::vector<std::uint64_t> samples;
    std::optional<Spool::Kept> batch;  // nothing: it is being loaded
    std::optional<std::uint64_t> wanted_as;
  };
  struct Cursor {
    Place next;  // nothing before it will be prepared
    std::optional<std::uint64_t> epoch;
    std::vector<std::size_t> share;  // of that epoch
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
  const std::size_t units_;  // of this loader
  std::vector<Course> courses_;
};

}  // namespace kolo::delivery
