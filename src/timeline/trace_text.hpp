// Writes events as lines of a Chrome trace (Trace Event Format, JSON array form), with the names of
// Horovod's timeline for everything that it has too. docs/timeline.md describes the result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "timeline/event.hpp"

namespace kolo::timeline {

// The process that a trace belongs to.
struct Origin {
  int rank = 0;
  int size = 1;
  std::string host;
  std::string program;         // its name, without folders
  std::string cores;           // that it may use, as core_list() writes them
  std::int64_t process = 0;    // the kernel's number
  std::int64_t run = 0;        // rank 0's time of day at the start, ns; tells runs apart
  Nanoseconds start = kNever;  // on this rank's clock
  // Added to this rank's clock, it gives the time since rank 0's start, as known at this rank's
  // start.
  std::int64_t shift = 0;
  std::size_t bucket_bytes = 0;  // the fusion threshold
};

class TraceText {
 public:
  explicit TraceText(Origin origin) : origin_(std::move(origin)) {}

  // All append whole lines to `text`. head() comes first and end() last. Viewers can also read a
  // file without the end.
  void head(std::string& text);
  void add(std::string& text, const Event& event);
  void dropped(std::string& text, std::uint64_t events, Nanoseconds at);
  void end(std::string& text) const;

 private:
  // The kinds of rows, in the order in which viewers show them.
  enum class RowKind : std::uint8_t { kSteps = 0, kThread, kBucket, kTensor, kUnnamed };

  void write(std::string& text, const OperationEvent& event);
  void write(std::string& text, const ScopeEvent& event);
  void write(std::string& text, const ArrivalEvent& event);
  void write(std::string& text, const LoadEvent& event);
  void write(std::string& text, const ClockEvent& event);

  void open(std::string& text, const char* phase, std::string_view name, const char* category,
            int row, Nanoseconds begin) const;
  void span(std::string& text, std::string_view name, const char* category, int row,
            Nanoseconds begin, Nanoseconds end) const;
  void counter(std::string& text, const char* name, const char* series, double value,
               Nanoseconds at) const;
  void phases(std::string& text, const OperationEvent& event, int row) const;
  void bandwidth(std::string& text, const OperationEvent& event);
  int row_of(std::string& text, const OperationEvent& event);
  int row_of(std::string& text, RowKind kind, int process_set, std::uint64_t number,
             std::string_view name);
  int row_of_thread(std::string& text, std::int32_t thread);
  int free_lane(std::string& text, const OperationEvent& event);
  void name_row(std::string& text, int row, RowKind kind, std::string_view name) const;

  const Origin origin_;
  std::unordered_map<std::string, int> rows_;
  std::string key_;                 // for row_of() alone; keeps its memory
  std::vector<Nanoseconds> lanes_;  // for transient names: until when each lane is taken
  // For the rate at which operations end.
  std::optional<Nanoseconds> bin_begin_;
  std::uint64_t bin_bytes_ = 0;
};

}  // namespace kolo::timeline
