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

// A file that is empty and may be written.
class TraceFile {
 public:
  // Makes the folder where there is none. A file that is there is replaced.
  static Status open(const std::string& folder, int rank, std::unique_ptr<TraceFile>& file);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& path() const { return path_; }
  Status write(const std::string& text);
  // It was made for nothing.
  void remove();

 private:
  TraceFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  const std::string path_;
  const int descriptor_;
};

class Writer {
 public:
  // The ring outlives this and has no other reader. `now_and_then` is called about ten times a
  // second, on the thread.
  Writer(EventRing& ring, std::unique_ptr<TraceFile> file, Origin origin,
         std::function<void()> now_and_then);
  ~Writer() { finish(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // `now_and_then` is not called any more, nor under way.
  void keep_quiet() KOLO_EXCLUDES(calls_);
  // Any thread: there is much to write.
  void wake() KOLO_EXCLUDES(mutex_);
  // Writes what is in the ring, and the end. One thread; wake() does nothing afterwards.
  void finish() KOLO_EXCLUDES(mutex_);

 private:
  void run() KOLO_EXCLUDES(mutex_) KOLO_EXCLUDES(calls_);
  void drain();
  void write();

  EventRing& ring_;
  const std::unique_ptr<TraceFile> file_;
  TraceText lines_;
  std::string text_;     // not written yet
  bool failed_ = false;  // to write: what comes is dropped
  Mutex mutex_;
  CondVar condition_;
  bool wake_ KOLO_GUARDED_BY(mutex_) = false;
  bool stop_ KOLO_GUARDED_BY(mutex_) = false;
  Mutex calls_;
  std::function<void()> now_and_then_ KOLO_GUARDED_BY(calls_);
  std::thread thread_;  // last: it uses all the others
};

}  // namespace kolo::timeline
