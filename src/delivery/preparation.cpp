#include "delivery/preparation.hpp"

#include <algorithm>
#include <utility>

namespace kolo::delivery {
namespace {

// A rank asks for several batches at once, and its requests may arrive out of order.
constexpr std::uint64_t kBatchesOutOfOrder = 64;

}  // namespace

std::size_t home_of(std::uint64_t batch, std::uint32_t rank, std::size_t loaders) {
  return static_cast<std::size_t>((batch + rank) % loaders);
}

Preparation::Preparation(const Options& options, std::vector<BatchPlan> plans)
    : options_(options), units_((options.units + options.loaders - 1) / options.loaders) {
  for (BatchPlan& plan : plans) {
    Course& course = courses_.emplace_back();
    course.plan = std::move(plan);
    course.cursors.resize(options.ranks);
  }
}

Preparation::Course* Preparation::course_of(const std::string& loader) {
  const auto found = std::find_if(courses_.begin(), courses_.end(),
                                  [&](const Course& c) { return c.plan.loader == loader; });
  return found == courses_.end() ? nullptr : &*found;
}

std::optional<PlannedBatch> Preparation::next() {
  for (Course& course : courses_) {
    if (!course.is_active || course.waiting >= units_) continue;
    if (std::optional<PlannedBatch> planned = next_of(course)) return planned;
  }
  return std::nullopt;
}

// Moves the cursor to the next batch whose home is here. Returns false if there is none.
bool Preparation::go_home(const Course& course, std::uint32_t rank, Cursor& cursor) const {
  const std::uint64_t size = course.plan.batch_size;
  // Every `loaders`-th batch of a share has its home here, unless the share is too short.
  for (std::size_t epochs = 0; epochs <= options_.loaders; ++epochs) {
    if (cursor.epoch != cursor.next.epoch) {
      cursor.share = course.plan.share(rank, cursor.next.epoch);
      cursor.epoch = cursor.next.epoch;
    }
    while (home_of(cursor.next.position / size, rank, options_.loaders) != options_.loader)
      cursor.next.position += size;
    const std::uint64_t least = course.plan.drop_last ? size : 1;
    if (cursor.next.position + least <= cursor.share.size()) return true;
    cursor.next = {cursor.next.epoch + 1, 0};
  }
  return false;
}

std::optional<PlannedBatch> Preparation::next_of(Course& course) {
  std::uint32_t first = options_.ranks;
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (!go_home(course, rank, course.cursors[rank])) continue;
    if (first == options_.ranks || course.cursors[rank].next < course.cursors[first].next)
      first = rank;
  }
  if (first == options_.ranks) return std::nullopt;
  Cursor& cursor = course.cursors[first];
  const std::size_t begin = cursor.next.position;
  const std::size_t end = std::min(begin + course.plan.batch_size, cursor.share.size());
  PlannedBatch planned;
  planned.rank = first;
  planned.request = {course.plan.loader, cursor.next.epoch, cursor.next.position, {}};
  for (std::size_t i = begin; i < end; ++i) planned.request.samples.push_back(cursor.share[i]);
  course.waiting += end - begin;
  cursor.entries[cursor.next] = {planned.request.samples, std::nullopt, std::nullopt};
  cursor.next.position = end;
  return planned;
}

void Preparation::erase(Course& course, Cursor& cursor, std::map<Place, Entry>::iterator entry) {
  course.waiting -= entry->second.samples.size();
  cursor.entries.erase(entry);
}

std::optional<Preparation::Unneeded> Preparation::put(const PlannedBatch& planned,
                                                      Spool::Kept batch) {
  Course* const course = course_of(planned.request.loader);
  Cursor& cursor = course->cursors[planned.rank];
  const auto entry = cursor.entries.find({planned.request.epoch, planned.request.position});
  if (entry == cursor.entries.end() || entry->second.batch)
    return Unneeded{std::nullopt, std::move(batch)};
  if (!entry->second.wanted_as) {
    entry->second.batch = std::move(batch);
    return std::nullopt;
  }
  Unneeded unneeded{entry->second.wanted_as, std::move(batch)};
  erase(*course, cursor, entry);
  return unneeded;
}

std::optional<std::uint64_t> Preparation::give_up(const PlannedBatch& planned) {
  Course* const course = course_of(planned.request.loader);
  Cursor& cursor = course->cursors[planned.rank];
  const auto entry = cursor.entries.find({planned.request.epoch, planned.request.position});
  if (entry == cursor.entries.end()) return std::nullopt;
  const std::optional<std::uint64_t> wanted_as = entry->second.wanted_as;
  erase(*course, cursor, entry);
  return wanted_as;
}

// Drops batches that their rank will not ask for, because it is elsewhere.
void Preparation::drop_stale(Course& course, Cursor& cursor, const Place& asked) {
  const std::uint64_t slack = kBatchesOutOfOrder * course.plan.batch_size;
  for (auto entry = cursor.entries.begin(); entry != cursor.entries.end();) {
    const Place& place = entry->first;
    const bool is_behind = place.epoch < asked.epoch ||
                           (place.epoch == asked.epoch && place.position + slack < asked.position);
    const bool is_far_ahead = place.epoch > asked.epoch + 1;
    const auto following = std::next(entry);
    if ((is_behind || is_far_ahead) && !entry->second.wanted_as) erase(course, cursor, entry);
    entry = following;
  }
}

Preparation::Answer Preparation::ask(std::uint32_t rank, const Request& request, std::uint64_t id) {
  Course* const course = course_of(request.loader);
  if (course == nullptr || rank >= course->cursors.size()) return {};
  course->is_active = true;
  Cursor& cursor = course->cursors[rank];
  const Place asked{request.epoch, request.position};
  Answer answer;
  const auto entry = cursor.entries.find(asked);
  if (entry != cursor.entries.end() && entry->second.samples == request.samples) {
    if (entry->second.batch) {
      answer = {Found::kNow, std::move(entry->second.batch)};
      erase(*course, cursor, entry);
    } else if (!entry->second.wanted_as) {
      entry->second.wanted_as = id;
      answer.found = Found::kSoon;
    }
  }
  drop_stale(*course, cursor, asked);
  const Place after{request.epoch, request.position + request.samples.size()};
  const bool is_elsewhere = cursor.next.epoch > asked.epoch + 1 && cursor.entries.empty();
  if (is_elsewhere || cursor.next < after) cursor.next = after;
  return answer;
}

void Preparation::withdraw(const std::string& loader) {
  Course* const course = course_of(loader);
  if (course == nullptr) return;
  course->is_active = false;
  for (Cursor& cursor : course->cursors) {
    for (auto entry = cursor.entries.begin(); entry != cursor.entries.end();) {
      const auto following = std::next(entry);
      if (!entry->second.wanted_as) erase(*course, cursor, entry);
      entry = following;
    }
    cursor = Cursor{cursor.next, std::nullopt, {}, std::move(cursor.entries)};
  }
}

}  // namespace kolo::delivery
