#include "kolo/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <system_error>
#include <thread>

#include "checkpoint/components.hpp"
#include "checkpoint/restoring.hpp"
#include "checkpoint/save_job.hpp"
#include "checkpoint/saving.hpp"
#include "checkpoint/talk.hpp"
#include "core/clock.hpp"
#include "core/log.hpp"
#include "core/thread_annotations.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/process_set.h"
#include "kolo/timeline.h"
#include "torch_ops/ops/background_set.hpp"
#include "torch_ops/session/session.hpp"

namespace kolo {
namespace {

using checkpoint::About;
using checkpoint::Added;
using checkpoint::Capture;
using checkpoint::FileSystem;
using checkpoint::Kind;
using checkpoint::Reader;
using checkpoint::Request;
using checkpoint::SaveJob;
using checkpoint::Spread;

constexpr std::size_t kMostNamed = 20;  // names of tensors in a message

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string speed(std::int64_t bytes, double seconds) {
  std::array<char, 96> text{};
  const double megabytes = static_cast<double>(bytes) / 1e6;
  std::snprintf(text.data(), text.size(), "%.1f MB in %.3f s (%.0f MB/s)", megabytes, seconds,
                megabytes / std::max(seconds, 1e-9));
  return text.data();
}

void append(std::string& text, const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += std::string("; ") + what + ":";
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) text += " " + names[i];
  if (names.size() > kMostNamed)
    text += " and " + std::to_string(names.size() - kMostNamed) + " more";
}

// Returns the folder without trailing slashes, so that paths built from it look right.
std::string trimmed(std::string folder) {
  if (folder.empty()) throw InvalidArgumentError("checkpoint: the folder's name is empty");
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

const CheckpointOptions& checked(const CheckpointOptions& options) {
  if (options.name().empty() || options.name().find('/') != std::string::npos) {
    throw InvalidArgumentError(
        "checkpoint: '" + options.name() +
        "' cannot begin a file name; give a name that is not empty and has no /");
  }
  if (options.keep_last() < 0 || options.keep_every() < 0 || options.keep_best() < 0)
    throw InvalidArgumentError("checkpoint: keep_last, keep_every and keep_best must be 0 or more");
  return options;
}

}  // namespace

struct Checkpoint::State {
  State(std::string where, const CheckpointOptions& chosen)
      : folder(trimmed(std::move(where))),
        options(checked(chosen)),
        shelf(files, folder, options.name(),
              {options.keep_last(), options.keep_every(), options.keep_best(),
               options.higher_is_better()}) {
    const std::shared_ptr<Session> running = session("Checkpoint");
    number = running->next_checkpoint();
    if (all_write()) writers = background_set(*running);
  }

  bool all_write() const { return options.writers() == CheckpointWriters::AllRanks; }
  void add(Added component);
  Capture capture() const;
  void start(const std::shared_ptr<SaveJob>& job) KOLO_EXCLUDES(mutex);
  void write(SaveJob& job) KOLO_EXCLUDES(mutex);
  void join();
  Status take_failure() KOLO_EXCLUDES(mutex);
  std::optional<checkpoint::Candidate> find(std::optional<checkpoint::Search>& search);
  // Returns nothing if the data cannot be read; `unreadable` then says why.
  std::optional<RestoredCheckpoint> restore_from(const checkpoint::Candidate& candidate,
                                                 bool strict, Status& unreadable);

  const std::string folder;
  const CheckpointOptions options;
  FileSystem& files = checkpoint::system_files();
  checkpoint::ParameterNames parameter_names;
  std::vector<Added> components;
  ProcessSet writers;        // all ranks; keeps operations of writing threads apart
  std::uint64_t number = 0;  // of this object; part of the names of those operations
  std::uint64_t expected_metadata = 0;
  bool is_saving = false;  // a save's result is not yet known of all ranks

  // Used by the writing thread while there is one.
  checkpoint::Shelf shelf;
  checkpoint::Staging staging;
  std::thread thread;

  Mutex mutex;
  bool busy KOLO_GUARDED_BY(mutex) = false;
  Status failure KOLO_GUARDED_BY(mutex);  // of the last save, until it has been reported
  CheckpointMetrics metrics KOLO_GUARDED_BY(mutex);
};

void Checkpoint::State::add(Added component) {
  const std::string& name = component->name();
  const bool is_random = components.empty();  // the one that the constructor adds
  bool is_taken = name.empty() || name == "kolo" || (name == "random" && !is_random);
  for (const Added& other : components) is_taken = is_taken || other->name() == name;
  if (is_taken) {
    throw InvalidArgumentError("checkpoint: nothing can be added under the name '" + name +
                               "': the name is empty, reserved by kolo, or was added before");
  }
  components.push_back(std::move(component));
}

Capture Checkpoint::State::capture() const {
  Capture capture;
  for (const Added& component : components) component->capture(capture);
  return capture;
}

void Checkpoint::State::join() {
  if (thread.joinable()) thread.join();
}

Status Checkpoint::State::take_failure() {
  const MutexLock lock(mutex);
  return std::exchange(failure, Status::ok());
}

// Writes in a new thread. If the system provides no thread, writes at once, because the other ranks
// may depend on this one.
void Checkpoint::State::start(const std::shared_ptr<SaveJob>& job) {
  {
    const MutexLock lock(mutex);
    busy = true;
  }
  try {
    thread = std::thread([this, job] { write(*job); });
  } catch (const std::system_error& error) {
    log::warning(std::string("checkpoint: this save writes before it returns, because no thread "
                             "could be started: ") +
                 error.what());
    write(*job);
  }
}

// Writes, and records the result.
void Checkpoint::State::write(SaveJob& job) {
  const TraceScope scope = trace("checkpoint.write");
  const Clock::time_point begin = Clock::now();
  std::int64_t bytes = 0;
  for (const auto& [piece, data] : job.pieces) bytes += static_cast<std::int64_t>(piece.bytes);
  const std::string path = job.path;
  const Status status = checkpoint::run(job, files, shelf, {writers, number});
  const double seconds = to_seconds(Clock::now() - begin);
  if (status.is_ok() && bytes > 0) log::info("checkpoint " + path + ": " + speed(bytes, seconds));
  const MutexLock lock(mutex);
  busy = false;
  failure = status;
  if (!status.is_ok()) return;
  metrics.write_seconds = seconds;
  metrics.written_bytes = bytes;
}

// --- the public class ---

Checkpoint::Checkpoint(std::string folder, const CheckpointOptions& options)
    : state_(std::make_unique<State>(std::move(folder), options)) {
  state_->add(checkpoint::random_component());
}

Checkpoint::~Checkpoint() {
  state_->join();
  const Status status = state_->take_failure();
  if (!status.is_ok()) log::error("the last checkpoint was not saved: " + status.message());
}

Checkpoint& Checkpoint::add(const std::string& name, torch::nn::Module& module) {
  return add_module(name, {std::shared_ptr<void>(), &module});  // not owned
}
Checkpoint& Checkpoint::add_module(const std::string& name,
                                   std::shared_ptr<torch::nn::Module> module) {
  checkpoint::name_parameters(*module, state_->parameter_names);
  state_->add(checkpoint::module_component(name, std::move(module)));
  return *this;
}
Checkpoint& Checkpoint::add(const std::string& name, torch::optim::Optimizer& optimizer) {
  state_->add(
      checkpoint::optimizer_component(name, optimizer, state_->parameter_names, Kind::kTensor));
  return *this;
}
Checkpoint& Checkpoint::add(const std::string& name, torch::optim::LRScheduler& scheduler) {
  state_->add(checkpoint::scheduler_component(name, scheduler));
  return *this;
}
Checkpoint& Checkpoint::add(const std::string& name,
                            torch::optim::ReduceLROnPlateauScheduler& scheduler) {
  state_->add(checkpoint::scheduler_component(name, scheduler));
  return *this;
}
Checkpoint& Checkpoint::add(const std::string& name, const at::Tensor& tensor) {
  state_->add(checkpoint::tensor_component(name, tensor, checkpoint::of_rank_zero()));
  return *this;
}
Checkpoint& Checkpoint::add(const std::string& name, std::string& text) {
  state_->add(checkpoint::text_component(name, text));
  return *this;
}
Checkpoint& Checkpoint::add_number(const std::string& name, Number number) {
  state_->add(checkpoint::number_component(name, std::move(number.get), std::move(number.set)));
  return *this;
}
Checkpoint& Checkpoint::add_tensors(const std::string& name, const detail::NamedTensors& parameters,
                                    const detail::NamedTensors& buffers) {
  checkpoint::name_parameters(parameters, state_->parameter_names);
  state_->add(checkpoint::tensors_component(name, parameters, buffers));
  return *this;
}
Checkpoint& Checkpoint::add_archive(const std::string& name, detail::Save save, detail::Load load) {
  state_->add(checkpoint::archive_component(name, std::move(save), std::move(load)));
  return *this;
}
Checkpoint& Checkpoint::add_per_rank(const std::string& name, const at::Tensor& tensor) {
  state_->add(checkpoint::tensor_component(name, tensor, {Kind::kPerRank, std::nullopt, {}}));
  return *this;
}
Checkpoint& Checkpoint::add_per_rank(const std::string& name, torch::optim::Optimizer& optimizer) {
  state_->add(
      checkpoint::optimizer_component(name, optimizer, state_->parameter_names, Kind::kPerRank));
  return *this;
}
Checkpoint& Checkpoint::add_part(const std::string& name, const at::Tensor& part,
                                 std::vector<std::int64_t> shape, std::vector<std::int64_t> start) {
  checkpoint::Box box{std::move(start), part.sizes().vec()};
  if (!checkpoint::is_within(box, shape)) {
    throw InvalidArgumentError("checkpoint: this rank's part of '" + name +
                               "' is not within the whole: start and shape need a number for each "
                               "of its dimensions, and start + extent at most the whole's");
  }
  state_->add(
      checkpoint::tensor_component(name, part, {Kind::kTensor, std::move(box), std::move(shape)}));
  return *this;
}

bool Checkpoint::save(std::int64_t step, std::optional<double> metric) {
  const TraceScope scope = trace("checkpoint.save");
  const Clock::time_point begin = Clock::now();
  State& state = *state_;
  checkpoint::Hello hello;
  hello.step = step;
  if (state.options.busy() == CheckpointBusy::Skip) {
    const MutexLock lock(state.mutex);
    hello.is_busy = state.busy;
  }
  if (!hello.is_busy) {
    state.join();
    hello.before = state.take_failure();
  }
  Capture capture;
  hello.now = checkpoint::status_of([&] {
    if (step < 0)
      throw InvalidArgumentError("checkpoint: step " + std::to_string(step) + "; give 0 or more");
    capture = state.capture();
  });
  const checkpoint::Greetings greetings = checkpoint::greet(hello, capture);
  if (greetings.someone_is_busy) {
    const MutexLock lock(state.mutex);
    if (!hello.before.is_ok()) state.failure = hello.before;  // for the next save that proceeds
    ++state.metrics.skipped;
    return false;
  }
  const bool ends = std::exchange(state.is_saving, false);
  greetings.throw_before();
  {
    const MutexLock lock(state.mutex);
    state.metrics.saved += ends ? 1 : 0;
  }
  checkpoint::Opening opening = checkpoint::open_save(capture, greetings);
  const About about{step, size(), utc_now(), KOLO_VERSION, metric};
  auto job = std::make_shared<SaveJob>();
  try {
    *job = checkpoint::prepare_save(
        std::move(opening), capture, about,
        {state.all_write(), state.options.asynchronous(), state.expected_metadata}, state.files,
        state.shelf, state.staging);
  } catch (...) {
    if (rank() == 0) checkpoint::abandon_file(state.files, state.shelf.path_of(step));
    throw;
  }
  state.expected_metadata = job->metadata.bytes.size();
  state.is_saving = true;
  if (state.options.asynchronous()) {
    state.start(job);
  } else {
    state.write(*job);
    wait();
  }
  const MutexLock lock(state.mutex);
  state.metrics.stall_seconds = to_seconds(Clock::now() - begin);
  return true;
}

void Checkpoint::wait() {
  const TraceScope scope = trace("checkpoint.wait");
  state_->join();
  const bool ends = std::exchange(state_->is_saving, false);
  checkpoint::agree(state_->take_failure(), "checkpoint.wait");
  const MutexLock lock(state_->mutex);
  state_->metrics.saved += ends ? 1 : 0;
}

std::optional<std::int64_t> Checkpoint::newest_step() {
  std::int64_t newest = -1;
  const Status status = checkpoint::status_of([&] {
    if (rank() != 0 || !state_->files.has_folder(state_->folder)) return;
    const auto all =
        checkpoint::list_checkpoints(state_->files, state_->folder, state_->options.name());
    if (!all.empty()) newest = all.front().step;
  });
  checkpoint::agree(status, "checkpoint.newest");
  newest = broadcast_object(newest, 0, "checkpoint.newest_step");
  return newest < 0 ? std::nullopt : std::optional(newest);
}

CheckpointMetrics Checkpoint::metrics() const {
  const MutexLock lock(state_->mutex);
  return state_->metrics;
}

std::optional<RestoredCheckpoint> Checkpoint::State::restore_from(
    const checkpoint::Candidate& candidate, bool strict, Status& unreadable) {
  std::optional<Reader> reader;
  std::optional<Request> request;
  RestoredCheckpoint restored;
  Status status = checkpoint::status_of([&] {
    reader.emplace(files, candidate.path, candidate.description);
    request.emplace(reader->table(), rank());
    for (const Added& component : components) {
      component->restore(*request);
      const auto rest = request->unexpected(checkpoint::join_name({component->name()}));
      // Random states of devices that this machine lacks may stay in the file.
      if (component->name() == "random") continue;
      restored.unexpected.insert(restored.unexpected.end(), rest.begin(), rest.end());
    }
    restored.missing = request->missing();
    restored.mismatched = request->mismatched();
    std::string text;
    append(text, "not in the file", restored.missing);
    append(text, "not in the program", restored.unexpected);
    append(text, "of other shape or dtype", restored.mismatched);
    if (text.empty()) return;
    text = candidate.path + " does not fit what was added" + text;
    if (strict) throw MismatchError(text + "; RestoreOptions().strict(false) restores what fits");
    log::warning("checkpoint: " + text + "; these stay as they are");
  });
  checkpoint::agree(status, "checkpoint.fits");
  checkpoint::agree_on(request->listing(), "restore different things from " + candidate.path);

  checkpoint::Fetch fetch(*reader, *request, all_write());
  status = checkpoint::status_of([&] { fetch.read(); });
  unreadable = checkpoint::status_of([&] { checkpoint::agree(status, "checkpoint.read"); });
  if (!unreadable.is_ok()) return std::nullopt;
  fetch.deliver(/*early=*/true);
  status = checkpoint::status_of([&] { request->apply_first(); });
  checkpoint::agree(status, "checkpoint.apply");
  fetch.deliver(/*early=*/false);
  request->apply_rest();

  const About about = checkpoint::about_of(reader->table());
  restored.path = candidate.path;
  restored.step = about.step;
  restored.metric = about.metric;
  return restored;
}

// Returns the next candidate. Collective. `search` is used on rank 0 only, and created in the first
// call.
std::optional<checkpoint::Candidate> Checkpoint::State::find(
    std::optional<checkpoint::Search>& search) {
  std::optional<checkpoint::Candidate> candidate;
  Status status;
  if (rank() == 0) {
    status = checkpoint::status_of([&] {
      if (!search) search.emplace(files, folder, options.name());
      candidate = search->next();
      std::string why;
      for (const std::string& one : search->rejected()) why += (why.empty() ? "" : "; ") + one;
      if (why.empty()) return;
      if (!candidate) throw DataError("no checkpoint in " + folder + " can be restored: " + why);
      log::warning("checkpoint: " + why + "; taking " + candidate->path + " instead");
    });
  }
  return checkpoint::share(status, candidate);
}

std::optional<RestoredCheckpoint> Checkpoint::restore(const RestoreOptions& options) {
  const TraceScope scope = trace("checkpoint.restore");
  State& state = *state_;
  wait();
  Status unreadable;
  if (!options.path().empty()) {
    std::optional<checkpoint::Candidate> candidate;
    const Status status = checkpoint::status_of([&] {
      if (rank() == 0) candidate = checkpoint::look_at(state.files, options.path());
    });
    candidate = checkpoint::share(status, candidate);
    auto restored = state.restore_from(*candidate, options.strict(), unreadable);
    throw_if_error(unreadable);
    return restored;
  }
  std::optional<checkpoint::Search> search;
  while (const std::optional<checkpoint::Candidate> candidate = state.find(search)) {
    auto restored = state.restore_from(*candidate, options.strict(), unreadable);
    if (restored) return restored;
    const bool is_the_file =
        unreadable.code() == StatusCode::kData || unreadable.code() == StatusCode::kFile;
    if (!is_the_file) throw_if_error(unreadable);
    if (rank() == 0) search->reject(unreadable.message());
  }
  return std::nullopt;
}

}  // namespace kolo
