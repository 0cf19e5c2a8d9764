// Writes a rank's timeline while the job runs: a thread that takes events out of a ring.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/status.hpp"
#include "core/thread_annotations.hpp"
#include "timeline/ring.hpp"
#include "timeline/trace_text.hpp"

namespace kolo::timeline {

using EventRing = Ring<Event>;

// A timeline's file, made empty and open for writing.
class TraceFile {
 public:
  // Makes the folder if there is none. Replaces an existing file.
  static Status open(const std::string& folder, int rank, std::unique_ptr<TraceFile>& file);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& path() const { return path_; }
  Status write(const std::string& text);
  // Removes the file if it is not needed after all.
  void remove();

 private:
  TraceFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  const std::string path_;
  const int descriptor_;
};

class Writer {
 public:
  // The ring outlives the writer and has no other reader. `now_and_then` is called about ten times
  // a second, on the writer's thread.
  Writer(EventRing& ring, std::unique_ptr<TraceFile> file, Origin origin,
         std::function<void()> now_and_then);
  ~Writer() { finish(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Ends the calls of `now_and_then`, and waits for one in progress.
  void keep_quiet() KOLO_EXCLUDES(calls_);
  // Wakes the writer's thread, because there is much to write. Any thread may call it.
  void wake() KOLO_EXCLUDES(mutex_);
  // Writes what is in the ring, and the end. Only one thread may call it. wake() does nothing
  // afterwards.
  void finish() KOLO_EXCLUDES(mutex_);

 private:
  void run() KOLO_EXCLUDES(mutex_) KOLO_EXCLUDES(calls_);
  void drain();
  void write();

  EventRing& ring_;
  const std::unique_ptr<TraceFile> file_;
  TraceText lines_;
  std::string text_;     // not written yet
  bool failed_ = false;  // writing failed: later events are dropped
  Mutex mutex_;
  CondVar condition_;
  bool wake_ KOLO_GUARDED_BY(mutex_) = false;
  bool stop_ KOLO_GUARDED_BY(mutex_) = false;
  Mutex calls_;
  std::function<void()> now_and_then_ KOLO_GUARDED_BY(calls_);
  std::thread thread_;  // last: it uses all the others
};

}  // namespace kolo::timeline
