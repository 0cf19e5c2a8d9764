#include "timeline/trace_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <variant>

#include "core/json.hpp"

namespace kolo::timeline {
namespace {

// Number of rows from which on further tensors share one.
constexpr std::size_t kMostRows = 20000;

constexpr Nanoseconds kBin = 10'000'000;

template <typename Number>
void append(std::string& text, Number number) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text.append(digits.data(), end);
}

// Appends microseconds with three decimals, at least 0. (Perfetto drops events before 0.)
void append_time(std::string& text, Nanoseconds time) {
  time = std::max(time, Nanoseconds{0});
  append(text, time / 1000);
  const auto rest = static_cast<int>(time % 1000);
  const char decimals[] = {'.', static_cast<char>('0' + rest / 100),
                           static_cast<char>('0' + rest / 10 % 10),
                           static_cast<char>('0' + rest % 10)};
  text.append(decimals, sizeof decimals);
}

void field(std::string& text, const char* name, std::int64_t value) {
  text += text.back() == '{' ? "\"" : ",\"";
  text += name;
  text += "\":";
  append(text, value);
}

// Perfetto takes process 0 for the kernel's idle one.
int process_of(const Origin& origin) {
  return origin.rank + 1;
}

}  // namespace

void TraceText::head(std::string& text) {
  const std::string rank = std::to_string(origin_.rank);
  const std::string begin =
      ",\"ph\":\"M\",\"pid\":" + std::to_string(process_of(origin_)) + ",\"args\":{";
  text += "[\n{\"name\":\"process_name\"" + begin +
          "\"name\":" + json_string("rank " + rank + " on " + origin_.host) + "}},\n";
  text += "{\"name\":\"process_sort_index\"" + begin + "\"sort_index\":" + rank + "}},\n";
  text += "{\"name\":\"kolo\"" + begin + "\"version\":1";
  field(text, "rank", origin_.rank);
  field(text, "size", origin_.size);
  text += ",\"host\":";
  append_json_string(text, origin_.host);
  text += ",\"program\":";
  append_json_string(text, origin_.program);
  text += ",\"cores\":";
  append_json_string(text, origin_.cores);
  field(text, "process", origin_.process);
  field(text, "run", origin_.run);
  field(text, "start_ns", origin_.start);
  field(text, "shift_ns", origin_.shift);
  field(text, "fusion_threshold", static_cast<std::int64_t>(origin_.bucket_bytes));
  text += "}},\n";
}

// The last element has no comma behind it.
void TraceText::end(std::string& text) const {
  text += "{\"name\":\"kolo_end\",\"ph\":\"M\",\"pid\":";
  append(text, process_of(origin_));
  text += ",\"args\":{}}\n]\n";
}

void TraceText::add(std::string& text, const Event& event) {
  std::visit([&](const auto& one) { write(text, one); }, event);
}

void TraceText::dropped(std::string& text, std::uint64_t events, Nanoseconds at) {
  open(text, "i", "events were lost", "kolo", 0, at);
  text += ",\"s\":\"p\",\"args\":{";
  field(text, "events", static_cast<std::int64_t>(events));
  text += "}},\n";
}

void TraceText::open(std::string& text, const char* phase, std::string_view name,
                     const char* category, int row, Nanoseconds begin) const {
  text += "{\"ph\":\"";
  text += phase;
  text += "\",\"name\":";
  append_json_string(text, name);
  text += ",\"cat\":\"";
  text += category;
  text += "\",\"pid\":";
  append(text, process_of(origin_));
  text += ",\"tid\":";
  append(text, row);
  text += ",\"ts\":";
  append_time(text, std::max(begin, origin_.start) + origin_.shift);
}

void TraceText::span(std::string& text, std::string_view name, const char* category, int row,
                     Nanoseconds begin, Nanoseconds end) const {
  open(text, "X", name, category, row, begin);
  text += ",\"dur\":";
  append_time(text, std::max(end - std::max(begin, origin_.start), Nanoseconds{0}));
}

void TraceText::counter(std::string& text, const char* name, const char* series, double value,
                        Nanoseconds at) const {
  open(text, "C", name, "load", 0, at);
  text += ",\"args\":{\"";
  text += series;
  text += "\":";
  append(text, value);
  text += "}},\n";
}

// A tensor in a bucket has a span until all ranks have agreed, and the bucket has the rest.
void TraceText::write(std::string& text, const OperationEvent& event) {
  const int row = row_of(text, event);
  const bool agreed = event.agreed != kNever;
  span(text, "NEGOTIATE_" + upper_name_of(event.kind), "negotiate", row, event.submitted,
       agreed ? event.agreed : event.ended);
  text += ",\"args\":{";
  field(text, "step", event.step);
  if (event.members == 0) field(text, "bytes", static_cast<std::int64_t>(event.bytes));
  if (event.members == 0 && event.bucket != 0)
    field(text, "bucket", static_cast<std::int64_t>(event.bucket));
  if (agreed) field(text, "sequence", static_cast<std::int64_t>(event.sequence));
  if (event.process_set != 0) field(text, "process_set", event.process_set);
  if (event.state == State::kFailed) text += ",\"failed\":true";
  text += "}},\n";
  if (!agreed || (event.members == 0 && event.bucket != 0)) return;
  span(text, upper_name_of(event.kind), "operation", row, event.agreed, event.ended);
  text += ",\"args\":{";
  field(text, "step", event.step);
  field(text, "bytes", static_cast<std::int64_t>(event.bytes));
  field(text, "sequence", static_cast<std::int64_t>(event.sequence));
  field(text, "process_set", event.process_set);
  if (event.members > 0) field(text, "members", event.members);
  text += ",\"dtype\":\"";
  text += name_of(event.dtype);
  text += event.state == State::kFailed ? "\",\"failed\":true}},\n" : "\"}},\n";
  if (event.started != kNever) phases(text, event, row);
  if (event.state != State::kDone) return;
  bandwidth(text, event);
  if (event.members > 0 && origin_.bucket_bytes > 0) {
    const double part =
        static_cast<double>(event.bytes) / static_cast<double>(origin_.bucket_bytes);
    counter(text, "bucket fill", "percent", 100 * part, event.agreed);
  }
}

void TraceText::phases(std::string& text, const OperationEvent& event, int row) const {
  const Nanoseconds ready = event.data_ready == kNever ? event.started : event.data_ready;
  const Nanoseconds packed = event.packed == kNever ? ready : event.packed;
  const Nanoseconds begun = std::max(packed, event.begun);
  const Nanoseconds reduced = event.reduced == kNever ? event.ended : event.reduced;
  const auto phase = [&](std::string_view name, const char* category, Nanoseconds from,
                         Nanoseconds to) {
    span(text, name, category, row, from, to);
    text += "},\n";
  };
  phase("QUEUE", "queue", event.agreed, event.started);
  if (event.data_ready != kNever) phase("WAIT_FOR_DATA", "queue", event.started, ready);
  if (event.packed != kNever) phase("MEMCPY_IN_FUSION_BUFFER", "memcpy", ready, packed);
  if (begun > packed) phase("QUEUE", "queue", packed, begun);
  phase(timeline_name_of(event.medium, event.kind), "collective", begun, reduced);
  if (event.reduced != kNever)
    phase("MEMCPY_OUT_FUSION_BUFFER", "memcpy", event.reduced, event.ended);
}

// Writes the rate at which operations have ended, for each hundredth of a second.
void TraceText::bandwidth(std::string& text, const OperationEvent& event) {
  const auto rate = [&] { return static_cast<double>(bin_bytes_) / static_cast<double>(kBin); };
  const Nanoseconds now = event.ended / kBin * kBin;
  const Nanoseconds begin = bin_begin_.value_or(now);
  bin_begin_ = std::max(begin, now);
  if (now > begin) {
    counter(text, "bandwidth", "GB/s", rate(), begin);
    bin_bytes_ = 0;
    if (now > begin + kBin) counter(text, "bandwidth", "GB/s", rate(), begin + kBin);
  }
  bin_bytes_ += event.bytes;
}

void TraceText::write(std::string& text, const ScopeEvent& event) {
  if (event.kind == ScopeEvent::Kind::kStep) {
    const int row = row_of(text, RowKind::kSteps, 0, 0, "steps");
    const int thread = row_of_thread(text, event.thread);
    span(text, "STEP " + std::to_string(event.step), "step", row, event.begin, event.end);
    text += ",\"args\":{";
    field(text, "step", event.step);
    field(text, "thread_row", thread);
    text += "}},\n";
    return;
  }
  const int row = row_of_thread(text, event.thread);
  const bool waits = event.kind == ScopeEvent::Kind::kWait;
  span(text, waits ? "WAIT" : event.name.view(), waits ? "wait" : "scope", row, event.begin,
       event.end);
  text += ",\"args\":{";
  field(text, "step", event.step);
  if (waits) {
    text += ",\"for\":";
    append_json_string(text, event.name.view());
  }
  text += "}},\n";
}

// Writes the rank's number into the row of its tensor, as in Horovod's timeline.
void TraceText::write(std::string& text, const ArrivalEvent& event) {
  if (event.transient) return;
  const int row = event.bucket != 0
                      ? row_of(text, RowKind::kBucket, event.process_set, event.bucket, {})
                      : row_of(text, RowKind::kTensor, event.process_set,
                               static_cast<std::uint64_t>(event.kind), event.name.view());
  open(text, "i", std::to_string(event.rank), "arrival", row, event.at);
  text += ",\"s\":\"t\",\"args\":{";
  field(text, "rank", event.rank);
  text += "}},\n";
}

void TraceText::write(std::string& text, const LoadEvent& event) {
  counter(text, "bytes in flight", "bytes", static_cast<double>(event.bytes), event.at);
  open(text, "C", "operations", "load", 0, event.at);
  text += ",\"args\":{";
  field(text, "negotiating", event.negotiating);
  field(text, "queued", event.queued);
  field(text, "running", event.running);
  text += "}},\n";
}

void TraceText::write(std::string& text, const ClockEvent& event) {
  open(text, "i", "clock", "kolo", 0, event.at);
  text += ",\"s\":\"p\",\"args\":{";
  field(text, "at_ns", event.at);
  field(text, "offset_ns", event.offset);
  field(text, "error_ns", event.error);
  text += "}},\n";
}

int TraceText::row_of_thread(std::string& text, std::int32_t thread) {
  const bool is_main = thread == origin_.process;
  return row_of(text, RowKind::kThread, 0, static_cast<std::uint64_t>(thread),
                is_main ? "program" : "program, thread " + std::to_string(thread));
}

int TraceText::row_of(std::string& text, const OperationEvent& event) {
  if (event.members > 0) return row_of(text, RowKind::kBucket, event.process_set, event.bucket, {});
  if (event.transient) return free_lane(text, event);
  return row_of(text, RowKind::kTensor, event.process_set, static_cast<std::uint64_t>(event.kind),
                event.name.view());
}

int TraceText::free_lane(std::string& text, const OperationEvent& event) {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(),
                                 [&](Nanoseconds until) { return until <= event.submitted; });
  const auto number = static_cast<std::uint64_t>(lane - lanes_.begin());
  if (lane == lanes_.end()) {
    lanes_.push_back(event.ended);
  } else {
    *lane = event.ended;
  }
  return row_of(text, RowKind::kUnnamed, 0, number + 1, {});
}

int TraceText::row_of(std::string& text, RowKind kind, int process_set, std::uint64_t number,
                      std::string_view name) {
  key_.clear();
  key_ += static_cast<char>('a' + static_cast<int>(kind));
  append(key_, process_set);
  key_ += ':';
  append(key_, number);
  key_ += ':';
  // Threads are told apart by their numbers.
  if (kind == RowKind::kTensor) key_ += name;
  if (const auto found = rows_.find(key_); found != rows_.end()) return found->second;
  if (kind == RowKind::kTensor && rows_.size() >= kMostRows)
    return row_of(text, RowKind::kUnnamed, 0, 0, {});
  const int row = static_cast<int>(rows_.size()) + 1;
  rows_.emplace(key_, row);
  std::string shown = process_set == 0 ? "" : "set " + std::to_string(process_set) + ": ";
  if (kind == RowKind::kBucket) {
    shown += "bucket " + std::to_string(number);
  } else if (kind == RowKind::kUnnamed) {
    shown += number == 0 ? "further tensors" : "unnamed " + std::to_string(number);
  } else {
    shown += name;
  }
  name_row(text, row, kind, shown);
  return row;
}

void TraceText::name_row(std::string& text, int row, RowKind kind, std::string_view name) const {
  static constexpr int kRowsOfAKind = 100000;
  const auto line = [&](const char* what) {
    text += "{\"name\":\"";
    text += what;
    text += "\",\"ph\":\"M\",\"pid\":";
    append(text, process_of(origin_));
    text += ",\"tid\":";
    append(text, row);
  };
  line("thread_name");
  text += ",\"args\":{\"name\":";
  append_json_string(text, name);
  text += "}},\n";
  line("thread_sort_index");
  text += ",\"args\":{\"sort_index\":";
  append(text, static_cast<int>(kind) * kRowsOfAKind + row);
  text += "}},\n";
}

}  // namespace kolo::timeline
