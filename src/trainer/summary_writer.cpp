#include "kolo/summary_writer.h"

#include <ATen/Functions.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/clock.hpp"
#include "core/file.hpp"
#include "core/host.hpp"
#include "core/json.hpp"
#include "core/log.hpp"
#include "core/thread_annotations.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "trainer/event_file.hpp"

namespace kolo {
namespace {

constexpr std::size_t kEnough = 1 << 20;                       // bytes; then they are written
constexpr std::int64_t kLargestImage = std::int64_t{1} << 30;  // PNG stores sizes in 31 bits
constexpr double kLongestPause = 86400.0;                      // seconds

// Returns the text. Throws if it is not UTF-8, because nothing behind it in an event file could be
// read.
const std::string& checked(const char* call, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      throw InvalidArgumentError(std::string(call) + ": byte " + std::to_string(at) + " of '" +
                                 text + "' is no UTF-8");
    }
    at += length;
  }
  return text;
}

double wall_time() {
  return static_cast<double>(unix_nanoseconds()) / 1e9;
}

// TensorBoard finds the folder's newest file by the seconds in its name.
std::string file_name() {
  static std::atomic<int> files{0};
  return "events.out.tfevents." + std::to_string(unix_nanoseconds() / 1'000'000'000) + "." +
         host_name() + "." + std::to_string(::getpid()) + "." + std::to_string(files++);
}

[[noreturn]] void fail(const std::string& path, const std::string& what, int error) {
  throw FileError(path + ": " + what + ": " + std::generic_category().message(error));
}

trainer::ImageValue image_of(const at::Tensor& given) {
  const auto refuse = [&](const std::string& why) -> InvalidArgumentError {
    return InvalidArgumentError("add_image: " + why +
                                "; it takes [height, width] or [channels, "
                                "height, width] with 1, 3 or 4 channels, of uint8 or floating");
  };
  if (!given.defined() || given.layout() != at::kStrided) {
    throw refuse("the tensor is undefined or sparse");
  }
  at::Tensor image = given.detach();
  if (image.dim() == 2) image = image.unsqueeze(0);
  if (image.dim() != 3) {
    throw refuse("the tensor has " + std::to_string(given.dim()) + " dimensions");
  }
  const std::int64_t channels = image.size(0);
  if (channels != 1 && channels != 3 && channels != 4) {
    throw refuse("the tensor has " + std::to_string(channels) + " channels");
  }
  if (image.numel() == 0) throw refuse("the tensor is empty");
  if (image.numel() > kLargestImage) throw refuse("the tensor has more than 2^30 elements");
  image = image.cpu().resolve_neg();
  if (image.is_floating_point()) {
    image = image.to(at::kFloat).nan_to_num(0, 1, 0).clamp(0, 1).mul(255).round().to(at::kByte);
  } else if (image.scalar_type() != at::kByte) {
    throw refuse(std::string("its dtype is ") + c10::toString(image.scalar_type()));
  }
  image = image.permute({1, 2, 0}).contiguous();
  trainer::ImageValue value;
  value.height = image.size(0);
  value.width = image.size(1);
  value.channels = static_cast<int>(channels);
  value.bytes.assign(static_cast<const char*>(image.const_data_ptr()),
                     static_cast<std::size_t>(image.numel()));
  return value;
}

}  // namespace

struct SummaryWriter::Impl {
  Impl(const std::string& folder, double flush_seconds)
      : flush_every(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(std::clamp(flush_seconds, 0.0, kLongestPause)))) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw FileError(folder + ": the folder cannot be made: " + error.message());
    path = folder + "/" + file_name();
    descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) fail(path, "cannot be made", errno);
    pending = trainer::version_record(wall_time());
  }
  ~Impl() {
    if (::close(descriptor) != 0) {
      log::warning(path + ": closing failed: what was added last may be lost");
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void add(const std::string& record) KOLO_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    pending += record;
    const Clock::time_point now = Clock::now();
    if (pending.size() >= kEnough || now - written_at >= flush_every) write();
  }
  void flush() KOLO_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    write();
  }
  void write() KOLO_REQUIRES(mutex) {
    written_at = Clock::now();
    const std::string records = std::exchange(pending, "");
    const int error = write_all(descriptor, records);
    if (error == 0) {
      whole += static_cast<off_t>(records.size());
      return;
    }
    // Nobody could read what follows half a record.
    if (::ftruncate(descriptor, whole) != 0 || ::lseek(descriptor, whole, SEEK_SET) < 0) {
      log::debug(path + ": half a record cannot be taken back");
    }
    fail(path, "writing failed", error);
  }

  const Clock::duration flush_every;
  std::string path;
  int descriptor = -1;
  Mutex mutex;
  std::string pending KOLO_GUARDED_BY(mutex);
  off_t whole KOLO_GUARDED_BY(mutex) = 0;  // bytes of the file that are whole records
  Clock::time_point written_at KOLO_GUARDED_BY(mutex) = Clock::now();
};

SummaryWriter::SummaryWriter(const std::string& folder, const SummaryWriterOptions& options) {
  const int here = is_initialized() ? rank() : 0;
  if (options.all_ranks()) {
    impl_ =
        std::make_unique<Impl>(folder + "/rank-" + std::to_string(here), options.flush_seconds());
  } else if (here == 0) {
    impl_ = std::make_unique<Impl>(folder, options.flush_seconds());
  }
  if (impl_ != nullptr) impl_->flush();
}

SummaryWriter::~SummaryWriter() {
  try {
    flush();
  } catch (const std::exception& error) {
    log::warning(std::string("SummaryWriter: ") + error.what());
  }
}

void SummaryWriter::add_scalar(const std::string& tag, double value, std::int64_t step) {
  if (impl_ != nullptr) {
    impl_->add(trainer::scalar_record({wall_time(), step}, checked("add_scalar", tag), value));
  }
}

void SummaryWriter::add_histogram(const std::string& tag, const at::Tensor& values,
                                  std::int64_t step) {
  if (impl_ == nullptr) return;
  if (!values.defined() || values.layout() != at::kStrided || values.is_complex()) {
    throw InvalidArgumentError("add_histogram: the tensor is undefined, sparse or complex");
  }
  const at::Tensor flat = values.detach().cpu().resolve_neg().to(at::kDouble).contiguous();
  const trainer::HistogramValue histogram =
      trainer::histogram_of(flat.const_data_ptr<double>(), static_cast<std::size_t>(flat.numel()));
  impl_->add(
      trainer::histogram_record({wall_time(), step}, checked("add_histogram", tag), histogram));
}

void SummaryWriter::add_image(const std::string& tag, const at::Tensor& image, std::int64_t step) {
  if (impl_ != nullptr) {
    impl_->add(
        trainer::image_record({wall_time(), step}, checked("add_image", tag), image_of(image)));
  }
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text, std::int64_t step) {
  if (impl_ != nullptr) {
    impl_->add(trainer::text_record({wall_time(), step}, checked("add_text", tag),
                                    checked("add_text", text)));
  }
}

void SummaryWriter::flush() {
  if (impl_ != nullptr) impl_->flush();
}

}  // namespace kolo
