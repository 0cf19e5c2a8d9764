#include "timeline/writer.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/file.hpp"
#include "core/log.hpp"

namespace kolo::timeline {
namespace {

constexpr Clock::duration kPeriod = std::chrono::milliseconds(100);

// Collected text of this size, in bytes, is written at once. A process that is killed while it
// writes may leave a part of it.
constexpr std::size_t kAtOnce = 64 << 10;

Status file_error(const std::string& path, const char* what, int error) {
  return Status::file("timeline: " + path + ": " + what + ": " +
                      std::generic_category().message(error) +
                      "; choose another folder (KOLO_TIMELINE)");
}

}  // namespace

Status TraceFile::open(const std::string& folder, int rank, std::unique_ptr<TraceFile>& file) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return file_error(folder, "the folder cannot be made", error.value());
  const std::string path = folder + "/timeline-rank-" + std::to_string(rank) + ".json";
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return file_error(path, "cannot be written", errno);
  file.reset(new TraceFile(path, descriptor));
  return Status::ok();
}

TraceFile::~TraceFile() {
  if (::close(descriptor_) != 0) log::warning(file_error(path_, "closing failed", errno).message());
}

Status TraceFile::write(const std::string& text) {
  const int error = write_all(descriptor_, text);
  return error == 0 ? Status::ok() : file_error(path_, "writing failed", error);
}

void TraceFile::remove() {
  if (::unlink(path_.c_str()) != 0)
    log::warning(file_error(path_, "removing failed", errno).message());
}

Writer::Writer(EventRing& ring, std::unique_ptr<TraceFile> file, Origin origin,
               std::function<void()> now_and_then)
    : ring_(ring),
      file_(std::move(file)),
      lines_(std::move(origin)),
      now_and_then_(std::move(now_and_then)) {
  lines_.head(text_);
  write();
  thread_ = std::thread([this] { run(); });
}

void Writer::finish() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    condition_.notify_one();
  }
  thread_.join();
  drain();
  lines_.end(text_);
  write();
}

void Writer::keep_quiet() {
  const MutexLock lock(calls_);
  now_and_then_ = nullptr;
}

void Writer::wake() {
  const MutexLock lock(mutex_);
  wake_ = true;
  condition_.notify_one();
}

void Writer::run() {
  pthread_setname_np(pthread_self(), "kolo-timeline");
  while (true) {
    {
      const Clock::time_point deadline = Clock::now() + kPeriod;
      const MutexLock lock(mutex_);
      while (!stop_ && !wake_ && condition_.wait_until(mutex_, deadline)) {
      }
      if (stop_) return;
      wake_ = false;
    }
    drain();
    const MutexLock lock(calls_);
    if (now_and_then_) now_and_then_();
  }
}

void Writer::drain() {
  // Takes at most as many events as the ring holds, because others keep adding to it.
  Event event;
  for (std::size_t taken = 0; taken < ring_.capacity() && ring_.pop(event); ++taken) {
    lines_.add(text_, event);
    if (text_.size() >= kAtOnce) write();
  }
  if (const std::uint64_t lost = ring_.take_dropped(); lost > 0)
    lines_.dropped(text_, lost, nanoseconds(Clock::now()));
  write();
}

void Writer::write() {
  const Status status = failed_ ? Status::ok() : file_->write(text_);
  text_.clear();
  if (status.is_ok()) return;
  failed_ = true;
  log::warning(status.message() + ". The timeline ends here; the job goes on");
}

}  // namespace kolo::timeline
