#include "timeline/flight.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/file.hpp"
#include "core/flight_files.hpp"
#include "core/json.hpp"

namespace kolo::timeline {
namespace {

Status failed(const std::string& path, const char* what, int error) {
  return Status::file("flight recorder: " + path + ": " + what + ": " +
                      std::generic_category().message(error) +
                      "; name a folder that can be written with KOLO_FLIGHT_RECORDER_DIR");
}

void add(std::string& line, const char* key, std::int64_t value) {
  line += std::string(line.size() == 1 ? "\"" : ",\"") + key + "\":" + std::to_string(value);
}

void add(std::string& line, const char* key, std::string_view value) {
  line += std::string(line.size() == 1 ? "\"" : ",\"") + key + "\":";
  append_json_string(line, value);
}

std::string line_of(const OperationEvent& event) {
  std::string line = "{";
  add(line, "name", event.name.view());
  add(line, "operation", std::string_view(kolo::name_of(event.kind)));
  add(line, "state", std::string_view(name_of(event.state)));
  if (event.wanted) add(line, "wanted", 1);
  add(line, "step", event.step);
  add(line, "bytes", static_cast<std::int64_t>(event.bytes));
  add(line, "dtype", std::string_view(kolo::name_of(event.dtype)));
  add(line, "process_set", event.process_set);
  if (event.bucket != 0) add(line, "bucket", static_cast<std::int64_t>(event.bucket));
  if (event.members != 0) add(line, "members", event.members);
  add(line, "submitted_ns", event.submitted);
  if (event.agreed != kNever) {
    add(line, "sequence", static_cast<std::int64_t>(event.sequence));
    add(line, "agreed_ns", event.agreed);
  }
  if (event.started != kNever) add(line, "started_ns", event.started);
  if (event.ended != kNever) add(line, "ended_ns", event.ended);
  return line + "}\n";
}

}  // namespace

const char* name_of(State state) {
  static constexpr const char* kNames[] = {"submitted", "agreed", "started", "done", "failed"};
  return kNames[static_cast<int>(state)];
}

std::string default_flight_folder(std::int64_t job) {
  const char* base = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): in init()
  const std::string folder = base == nullptr || *base == '\0' ? "/tmp" : base;
  return folder + "/" + flight_folder_name(::getuid()) + "/" + std::to_string(job);
}

std::string flight_text(const FlightOrigin& origin, const FlightNote& note,
                        const std::vector<OperationEvent>& operations) {
  std::string text = "{";
  add(text, "kolo_flight", 1);
  add(text, "rank", origin.rank);
  add(text, "size", origin.size);
  add(text, "host", std::string_view(origin.host));
  add(text, "process", origin.process);
  add(text, "job", origin.job);
  add(text, "reason", std::string_view(note.reason));
  add(text, "step", note.step);
  if (note.frozen > 0) add(text, "frozen_ns", note.frozen);
  add(text, "now_ns", nanoseconds(Clock::now()));
  add(text, "unix_ns", unix_nanoseconds());
  text += "}\n";
  for (const OperationEvent& event : operations) text += line_of(event);
  return text;
}

Status write_flight(const FlightOrigin& origin, const std::string& text, std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(origin.folder, error);
  if (error) return failed(origin.folder, "the folder cannot be made", error.value());
  path = origin.folder + "/" + kFlightPrefix + std::to_string(origin.rank) + ".json";
  const std::string unfinished = path + "." + std::to_string(origin.process) + ".tmp";
  const int descriptor =
      ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return failed(path, "cannot be written", errno);
  const int unwritten = write_all(descriptor, text);
  Status status = unwritten == 0 ? Status::ok() : failed(path, "writing failed", unwritten);
  if (::close(descriptor) != 0 && status.is_ok()) status = failed(path, "closing failed", errno);
  if (status.is_ok() && std::rename(unfinished.c_str(), path.c_str()) != 0)
    status = failed(path, "renaming failed", errno);
  if (!status.is_ok()) ::unlink(unfinished.c_str());
  return status;
}

}  // namespace kolo::timeline
