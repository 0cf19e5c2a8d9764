#include "tools/trace/diagnose.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/flight_files.hpp"
#include "core/ranks.hpp"
#include "kolo/error.h"
#include "tools/json_fields.hpp"
#include "tools/printable.hpp"

namespace kolo::tools {
namespace {

using nlohmann::json;
using State = FlightOperation::State;

constexpr int kVersion = 1;
// All ranks write their records of a failure within this time.
constexpr std::int64_t kOneFailure = 1'000'000'000;  // ns
constexpr std::size_t kMostNames = 6;
constexpr std::size_t kMostRanksInDetail = 8;

// --- reading ---

State state_of(const std::string& name) {
  static const std::array<const char*, 5> kNames = {"submitted", "agreed", "started", "done",
                                                    "failed"};
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) throw DataError("unknown state '" + name + "'");
  return static_cast<State>(found - kNames.begin());
}

FlightOperation operation_of(const json& line) {
  FlightOperation one;
  one.name = line.at("name").get<std::string>();
  one.operation = line.at("operation").get<std::string>();
  one.state = state_of(line.at("state").get<std::string>());
  one.wanted = integer_or(line, "wanted", 0) != 0;
  one.step = integer_at(line, "step");
  one.bytes = integer_at(line, "bytes");
  one.process_set = int_at(line, "process_set");
  one.bucket = integer_or(line, "bucket", 0);
  one.members = integer_or(line, "members", 0);
  one.sequence = integer_or(line, "sequence", -1);
  one.submitted = integer_at(line, "submitted_ns");
  one.started = integer_or(line, "started_ns", 0);
  one.ended = integer_or(line, "ended_ns", 0);
  return one;
}

Flight header_of(const json& line) {
  if (int_at(line, "kolo_flight") > kVersion) {
    throw DataError(
        "it was written by a newer version of kolo; use the kolo trace of that version");
  }
  Flight flight;
  std::tie(flight.rank, flight.size) = rank_and_size(line);
  flight.host = line.at("host").get<std::string>();
  flight.process = integer_at(line, "process");
  flight.job = integer_at(line, "job");
  flight.reason = line.at("reason").get<std::string>();
  flight.step = integer_at(line, "step");
  flight.now = integer_at(line, "now_ns");
  flight.unix_time = integer_at(line, "unix_ns");
  flight.frozen = integer_or(line, "frozen_ns", 0);
  return flight;
}

// --- words ---

std::string seconds(std::int64_t nanoseconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(nanoseconds) / 1e9);
  return text;
}

std::string described(const FlightOperation& one) {
  if (one.members > 0) {
    return one.operation + " of bucket " + std::to_string(one.bucket) + " (" +
           std::to_string(one.members) + " tensors, the last one '" + one.name + "')";
  }
  return one.operation + " of '" + one.name + "'";
}

std::vector<int> ranks_of(const std::set<int>& ranks) {
  return {ranks.begin(), ranks.end()};
}

std::string verb(const std::set<int>& ranks, const char* one, const char* many) {
  return rank_list(ranks_of(ranks)) + " " + (ranks.size() == 1 ? one : many);
}

// --- what ranks have in common ---

// The identity of an operation, the same on every rank.
using Key = std::tuple<int, std::string, std::string>;  // process set, operation, name
Key key_of(const FlightOperation& one) {
  return {one.process_set, one.operation, one.name};
}

class Diagnostician {
 public:
  explicit Diagnostician(const Flights& flights) : flights_(flights) {}

  Diagnosis run() {
    for (const auto& [rank, flight] : flights_) {
      members_[0].insert(rank);
      for (const FlightOperation& one : flight.operations) {
        members_[one.process_set].insert(rank);
        if (one.members > 0) continue;
        if (one.operation == "join") {  // it submits nothing any more, and waits for all others
          if (one.state == State::kSubmitted) joined_[one.process_set].insert(rank);
        } else if (one.state == State::kSubmitted) {
          pending_[key_of(one)].emplace(rank, &one);
        } else {
          last_[key_of(one)][rank] = &one;
        }
      }
    }
    tell_of_silent_ranks();
    tell_of_old_records();
    tell_of_orders();
    tell_of_missing();
    tell_of_undecided();
    tell_of_unfinished();
    tell_of_ranks();
    if (!diagnosis_.diverged) {
      lines_.insert(lines_.begin(),
                    "No rank waits for another: all operations that one rank submitted were "
                    "submitted on all ranks, and have ended.");
    }
    for (const std::string& line : lines_) diagnosis_.text += printable(line) + "\n";
    return diagnosis_;
  }

 private:
  struct Absence {  // operations that the same ranks miss in the same step
    std::vector<const FlightOperation*> operations;
    std::set<int> there;
    std::int64_t age = 0;  // of the oldest
  };

  void tell(const std::string& line) {
    lines_.push_back(line);
    diagnosis_.diverged = true;
  }

  int size() const { return flights_.begin()->second.size; }

  bool has_joined(int process_set, int rank) const {
    const auto found = joined_.find(process_set);
    return found != joined_.end() && found->second.count(rank) > 0;
  }

  // Looks at all ranks of the job, because the members of other process sets are not recorded.
  std::set<int> silent_ranks() const {
    std::set<int> silent;
    for (int rank = 0; rank < size(); ++rank) {
      if (flights_.count(rank) == 0) silent.insert(rank);
    }
    return silent;
  }

  void tell_of_silent_ranks() {
    const std::set<int> silent = silent_ranks();
    for (const auto& [rank, flight] : flights_) {
      if (flight.frozen > 0) {
        tell("rank " + std::to_string(rank) + " did not run for " + seconds(flight.frozen) +
             " before it wrote its record: it was stopped (SIGSTOP, a debugger), or its computer "
             "was.");
      }
    }
    if (silent.empty()) return;
    tell(verb(silent, "has", "have") +
         " left no record here: killed, stopped (SIGSTOP), without a disk to write to, or on "
         "another node, which has a folder of its own unless KOLO_FLIGHT_RECORDER_DIR names one "
         "that all nodes share.");
  }

  // When an operation fails, every rank that still runs writes its record.
  void tell_of_old_records() {
    const Flight* failed = nullptr;
    for (const auto& [rank, flight] : flights_) {
      if (flight.has_failed() && (failed == nullptr || flight.unix_time < failed->unix_time))
        failed = &flight;
    }
    if (failed == nullptr) return;
    for (const auto& [rank, flight] : flights_) {
      const std::int64_t age = failed->unix_time - flight.unix_time;
      if (flight.has_failed() || age < kOneFailure) continue;
      tell("rank " + std::to_string(rank) + " wrote its record " + seconds(age) +
           " before the failure on rank " + std::to_string(failed->rank) +
           ", and none afterwards: it was killed or stopped (SIGSTOP, a debugger), or its program "
           "had ended.");
    }
  }

  // Whether the rank, in its record, has already agreed upon an operation that is pending on
  // others. Then it wrote its record later.
  bool is_further(int rank, const Key& key, const FlightOperation& pending) const {
    const auto known = last_.find(key);
    if (known == last_.end() || known->second.count(rank) == 0) return false;
    const FlightOperation& last = *known->second.at(rank);
    std::int64_t before = -1;
    for (const auto& [other, one] : pending_.at(key)) {
      if (one == &pending && known->second.count(other) > 0)
        before = known->second.at(other)->sequence;
    }
    return last.sequence > before;
  }

  std::set<int> missing_for(const Key& key,
                            const std::map<int, const FlightOperation*>& there) const {
    std::set<int> missing;
    if (std::get<1>(key) == "send") return missing;  // the other ranks take no part
    for (const int rank : members_.at(std::get<0>(key))) {
      if (there.count(rank) == 0 && !has_joined(std::get<0>(key), rank) &&
          !is_further(rank, key, *there.begin()->second))
        missing.insert(rank);
    }
    return missing;
  }

  // Reports two ranks that wait for each other.
  void tell_of_orders() {
    for (auto first = pending_.begin(); first != pending_.end(); ++first) {
      const std::set<int> missing = missing_for(first->first, first->second);
      for (auto second = std::next(first); second != pending_.end(); ++second) {
        const auto waits = [](const auto& entry, const std::set<int>& without) {
          for (const auto& [rank, one] : entry.second) {
            if (one->wanted && without.count(rank) > 0) return rank;
          }
          return -1;
        };
        const std::set<int> others = missing_for(second->first, second->second);
        const int a = waits(*first, others);
        const int b = waits(*second, missing);
        if (a < 0 || b < 0) continue;
        tell("The ranks wait in different order: rank " + std::to_string(a) + " waits for " +
             described(*first->second.at(a)) + ", which rank " + std::to_string(b) +
             " has not submitted; that one waits for " + described(*second->second.at(b)) +
             ", which rank " + std::to_string(a) + " has not.");
        return;  // it is one mistake, whatever else waits
      }
    }
  }

  void tell_of_missing() {
    std::map<std::pair<std::set<int>, std::int64_t>, Absence> absences;  // by ranks and step
    for (const auto& [key, there] : pending_) {
      const std::set<int> missing = missing_for(key, there);
      if (missing.empty()) continue;
      const FlightOperation& one = *there.begin()->second;
      Absence& absence = absences[{missing, one.step}];
      absence.operations.push_back(&one);
      for (const auto& [rank, operation] : there) {
        absence.there.insert(rank);
        absence.age = std::max(absence.age, flights_.at(rank).now - operation->submitted);
      }
    }
    std::set<int> all_missing;
    for (const auto& [who, absence] : absences) {
      const auto& [missing, step] = who;
      std::string names;
      const std::size_t listed = std::min(absence.operations.size(), kMostNames);
      for (std::size_t i = 0; i < listed; ++i)
        names += (i == 0 ? "" : ", ") + described(*absence.operations[i]);
      if (listed < absence.operations.size())
        names += " and " + std::to_string(absence.operations.size() - listed) + " more";
      tell(rank_list(ranks_of(missing)) + " never submitted " + names + " in step " +
           std::to_string(step) + "; " + rank_list(ranks_of(absence.there)) + " did, the first " +
           seconds(absence.age) + " before the record was written.");
      all_missing.insert(missing.begin(), missing.end());
    }
    std::size_t told = 0;
    for (const int rank : all_missing) {
      if (++told > kMostRanksInDetail) break;
      tell_what_it_did(flights_.at(rank));
    }
  }

  // Reports what all ranks that have left a record had submitted without agreeing upon it.
  void tell_of_undecided() {
    const std::set<int> silent = silent_ranks();
    std::size_t told = 0;
    for (const auto& [key, there] : pending_) {
      const bool others = std::get<0>(key) == 0 && !silent.empty();
      if ((there.size() < 2 && !others) || !missing_for(key, there).empty() ||
          std::get<1>(key) == "send")
        continue;
      if (++told > kMostNames) return;
      const FlightOperation& one = *there.begin()->second;
      if (others) {
        tell(described(one) + " in step " + std::to_string(one.step) +
             " was submitted on all ranks that have left a record: it waits for " +
             rank_list(ranks_of(silent)) + ".");
        continue;
      }
      const auto when = [&](const auto& entry) {
        const Flight& flight = flights_.at(entry.first);
        return flight.unix_time - (flight.now - entry.second->submitted);
      };
      const auto [first, last] =
          std::minmax_element(there.begin(), there.end(),
                              [&](const auto& a, const auto& b) { return when(a) < when(b); });
      tell(described(*first->second) + " in step " + std::to_string(first->second->step) +
           " was submitted on all ranks, the last of which, rank " + std::to_string(last->first) +
           ", came " + seconds(when(*last) - when(*first)) + " after the first, rank " +
           std::to_string(first->first) + "; the ranks had not agreed on it yet.");
    }
  }

  void tell_what_it_did(const Flight& flight) {
    const FlightOperation* last = nullptr;
    const FlightOperation* wanted = nullptr;
    for (const FlightOperation& one : flight.operations) {
      if (one.members > 0) continue;
      if (one.ended > 0 && (last == nullptr || one.ended >= last->ended)) last = &one;
      if (one.wanted && one.ended == 0) wanted = &one;
    }
    std::string text = "Rank " + std::to_string(flight.rank) + ", in step " +
                       std::to_string(flight.step) + ": the last thing it did was ";
    text += last == nullptr
                ? std::string("nothing that is recorded")
                : described(*last) + " in step " + std::to_string(last->step) + ", which " +
                      (last->state == State::kFailed ? "failed " : "ended ") +
                      seconds(flight.now - last->ended) + " before it wrote its record";
    text += wanted == nullptr ? "; its program waits for no operation: it computes, loads data, or "
                                "hangs outside of kolo"
                              : "; its program waits for " + described(*wanted);
    tell(text + ".");
  }

  // Reports what has begun and not ended, by process set and sequence number, which all ranks
  // share.
  void tell_of_unfinished() {
    struct Ranks {
      const FlightOperation* one = nullptr;
      std::set<int> started;
      std::set<int> agreed;
      std::set<int> done;
      std::int64_t age = 0;
    };
    std::map<std::pair<int, std::int64_t>, Ranks> unfinished;
    const auto each = [&](const auto& function) {
      for (const auto& [rank, flight] : flights_) {
        for (const FlightOperation& one : flight.operations) {
          if (one.sequence >= 0 && (one.bucket == 0 || one.members > 0)) function(flight, one);
        }
      }
    };
    each([&](const Flight& flight, const FlightOperation& one) {
      if (one.state != State::kStarted && one.state != State::kAgreed) return;
      Ranks& ranks = unfinished[{one.process_set, one.sequence}];
      ranks.one = &one;
      (one.state == State::kStarted ? ranks.started : ranks.agreed).insert(flight.rank);
      if (one.started > 0) ranks.age = std::max(ranks.age, flight.now - one.started);
    });
    each([&](const Flight& flight, const FlightOperation& one) {
      if (one.state != State::kDone) return;
      const auto found = unfinished.find({one.process_set, one.sequence});
      if (found != unfinished.end()) found->second.done.insert(flight.rank);
    });
    std::size_t told = 0;
    for (const auto& [where, ranks] : unfinished) {
      if (++told > kMostNames) break;
      std::string text = described(*ranks.one) + " in step " + std::to_string(ranks.one->step) +
                         " has begun and not ended";
      if (!ranks.started.empty()) text += " on " + rank_list(ranks_of(ranks.started));
      if (ranks.age > 0) text += ", for " + seconds(ranks.age);
      if (!ranks.agreed.empty())
        text += "; it waits for its turn on " + rank_list(ranks_of(ranks.agreed));
      if (!ranks.done.empty()) text += "; it is done on " + rank_list(ranks_of(ranks.done));
      std::set<int> unknown;
      for (const int rank : members_.at(where.first)) {
        if (ranks.started.count(rank) + ranks.agreed.count(rank) + ranks.done.count(rank) == 0)
          unknown.insert(rank);
      }
      if (!unknown.empty()) text += "; " + verb(unknown, "has", "have") + " not heard of it";
      tell(text + ".");
    }
  }

  void tell_of_ranks() {
    std::size_t told = 0;
    for (const auto& [rank, flight] : flights_) {
      if (++told > kMostRanksInDetail) {
        lines_.push_back("... and " + std::to_string(flights_.size() - kMostRanksInDetail) +
                         " more ranks");
        break;
      }
      lines_.push_back("rank " + std::to_string(rank) + " on " + flight.host + " (process " +
                       std::to_string(flight.process) + "), step " + std::to_string(flight.step) +
                       ", wrote " + std::to_string(flight.operations.size()) +
                       " operations for: " + flight.reason);
    }
  }

  const Flights& flights_;
  // Ranks that have left a record; in process sets other than 0, those that did something in it.
  std::map<int, std::set<int>> members_;
  std::map<int, std::set<int>> joined_;                           // by process set
  std::map<Key, std::map<int, const FlightOperation*>> pending_;  // not agreed upon; by rank
  std::map<Key, std::map<int, const FlightOperation*>> last_;     // agreed upon: the last one
  std::vector<std::string> lines_;
  Diagnosis diagnosis_;
};

}  // namespace

Flight parse_flight(const std::string& text, const std::string& path) {
  std::istringstream lines(text);
  std::size_t number = 0;
  Flight flight;
  try {
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const json parsed = parse_json(line);
      if (number == 1) {
        flight = header_of(parsed);
      } else {
        flight.operations.push_back(operation_of(parsed));
      }
    }
    if (number == 0) throw DataError("it is empty");
  } catch (const std::exception& error) {
    throw DataError(path + ", line " + std::to_string(number) +
                    ": is not a flight record of kolo: " + error.what());
  }
  return flight;
}

Flights read_flights(const std::string& folder) {
  std::error_code error;
  std::vector<Flight> all;
  std::int64_t newest = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind(kFlightPrefix, 0) != 0 || entry->path().extension() != ".json") continue;
    std::ifstream file(entry->path());
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw FileError(entry->path().string() + ": cannot be read");
    all.push_back(parse_flight(text.str(), entry->path().string()));
    newest = std::max(newest, all.back().job);
  }
  if (error) throw FileError(folder + ": cannot be read: " + error.message());
  if (all.empty()) {
    throw FileError(folder +
                    ": there are no flight records here (flight-rank-N.json); ranks write them "
                    "after a failure or a stall, and when kolo dump asks them to");
  }
  Flights flights;
  for (Flight& flight : all) {
    if (flight.job != newest) continue;
    const int rank = flight.rank;
    flights.emplace(rank, std::move(flight));
  }
  return flights;
}

Diagnosis diagnose(const Flights& flights) {
  return Diagnostician(flights).run();
}

}  // namespace kolo::tools
