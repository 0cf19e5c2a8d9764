#include "delivery/server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <list>
#include <system_error>
#include <utility>

#include "core/exception.hpp"
#include "core/log.hpp"
#include "delivery/connection.hpp"
#include "delivery/peer.hpp"
#include "kolo/error.h"

namespace kolo::delivery {
namespace {

// A rank's requests in flight are bounded by its loaders' threads, far below this.
constexpr std::size_t kMostJobsOfRank = 4096;
constexpr std::size_t kMostPeers = 65536;
constexpr int kPauseMilliseconds = 100;

Welcome welcome_of(const std::vector<Served>& served, unsigned workers) {
  Welcome welcome;
  welcome.workers = workers;
  for (const Served& one : served) welcome.loaders.push_back(one.info);
  return welcome;
}

std::vector<BatchPlan> plans_of(const std::vector<Served>& served) {
  std::vector<BatchPlan> plans;
  plans.reserve(served.size());
  for (const Served& one : served) plans.push_back(one.plan);
  return plans;
}

}  // namespace

Server::Server(const ServerOptions& options, std::vector<Served> served, std::vector<Fd> listeners)
    : options_(options),
      served_(std::move(served)),
      listeners_(std::move(listeners)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      spool_(options.memory_bytes, options.spool),
      preparation_(options.preparation, plans_of(served_)) {
  if (!stop_.is_open()) throw std::system_error(errno, std::generic_category(), "eventfd");
  try {
    for (unsigned i = 0; i < options_.workers; ++i)
      workers_.emplace_back([this, readers = make_readers()] { work(readers); });
    accepting_ = std::thread([this] { accept_peers(); });
  } catch (...) {  // the system has no more threads, say
    stop();
    throw;
  }
}

Server::~Server() {
  stop();
}

void Server::stop() {
  const std::uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  if (accepting_.joinable()) accepting_.join();
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Server::wait_until_prepared() {
  const MutexLock lock(mutex_);
  while (!is_prepared_ && failed_ == nullptr) prepared_.wait(mutex_);
  if (failed_ != nullptr) std::rethrow_exception(failed_);
}

std::size_t Server::waiting_requests() {
  const MutexLock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [rank, queue] : jobs_) count += queue.size();
  return count;
}

// --- peers ---

void Server::accept_peers() {
  std::list<std::pair<std::shared_ptr<Peer>, std::thread>> peers;
  const auto join_ended = [&](bool all) {
    for (auto peer = peers.begin(); peer != peers.end();) {
      if (all) peer->first->close();
      if (!all && !peer->first->has_ended()) {
        ++peer;
        continue;
      }
      peer->second.join();
      peer = peers.erase(peer);
    }
  };
  std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
  for (const Fd& listener : listeners_) polled.push_back({listener.get(), POLLIN, 0});
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0) {
      if (errno == EINTR) continue;
      log::error("delivery: poll: " + std::generic_category().message(errno));
      break;
    }
    if (polled[0].revents != 0) break;
    join_ended(false);
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      Fd socket(::accept4(polled[i].fd, nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket.is_open()) {  // the peer is gone, or no descriptor is free
        if (errno == EMFILE || errno == ENFILE) (void)::poll(nullptr, 0, kPauseMilliseconds);
        continue;
      }
      if (peers.size() >= kMostPeers) continue;
      try {
        auto peer = std::make_shared<Peer>(Connection::accepted(std::move(socket)));
        peers.emplace_back(peer, std::thread([this, peer] { listen_to(peer); }));
      } catch (const std::exception& error) {  // no thread, say
        log::warning(std::string("delivery: a connection was refused: ") + error.what());
      }
    }
  }
  join_ended(true);
}

void Server::listen_to(const std::shared_ptr<Peer>& peer) {
  try {
    if (peer->shake_hands(options_.token, welcome_of(served_, options_.workers))) {
      for (;;) {
        const Frame frame = peer->receive();
        if (frame.head.kind == FrameKind::kRequest) {
          std::optional<Request> request = decode<Request>(frame.body);
          if (!request) break;
          on_request(peer, frame.head.id, std::move(*request));
        } else if (frame.head.kind == FrameKind::kRelease) {
          const std::optional<Release> release = decode<Release>(frame.body);
          if (!release) break;
          for (const std::uint32_t slot : release->slots) peer->release(slot);
        } else if (frame.head.kind == FrameKind::kWithdraw) {
          const std::optional<Withdraw> withdraw = decode<Withdraw>(frame.body);
          if (!withdraw) break;
          const MutexLock lock(mutex_);
          preparation_.withdraw(withdraw->loader);
        } else {
          break;
        }
      }
    }
  } catch (const ConnectionLost& lost) {
    log::debug(std::string("delivery: a training rank is gone: ") + lost.what());
  } catch (const std::exception& error) {  // no memory, say
    log::warning(std::string("delivery: a connection was closed: ") + error.what());
  }
  peer->close();
  {
    const MutexLock lock(mutex_);
    auto& queue = jobs_[peer->rank()];
    std::erase_if(queue, [&](const Job& job) { return job.peer == peer; });
  }
  peer->set_ended();
}

void Server::on_request(const std::shared_ptr<Peer>& peer, std::uint64_t id, Request request) {
  {
    const MutexLock lock(mutex_);
    std::deque<Job>& queue = jobs_[peer->rank()];
    if (queue.size() >= kMostJobsOfRank)
      throw ConnectionLost("it has requested too many batches at once");
    const std::uint64_t number = next_number_++;
    Preparation::Answer answer = preparation_.ask(peer->rank(), request, number);
    Job job{peer, id, std::move(request), std::move(answer.batch)};
    if (answer.found == Preparation::Found::kSoon) {
      waiting_.emplace(number, std::move(job));
      return;
    }
    queue.push_back(std::move(job));
  }
  changed_.notify_one();
}

// --- workers ---

Server::Readers Server::make_readers() const {
  Readers readers;
  for (const Served& one : served_) readers.emplace(one.info.name, one.make_reader());
  return readers;
}

void Server::work(const Readers& readers) {
  for (;;) {
    Task task = wait_for_task();
    if (task.job) {
      serve(readers, std::move(*task.job));
    } else if (task.planned) {
      prepare(readers, *task.planned);
    } else {
      return;
    }
  }
}

// Returns the next request, taking the ranks in turn.
std::optional<Server::Job> Server::take_job() {
  const auto take = [&](auto from, auto to) KOLO_REQUIRES(mutex_) -> std::optional<Job> {
    for (; from != to; ++from) {
      if (from->second.empty()) continue;
      Job job = std::move(from->second.front());
      from->second.pop_front();
      last_rank_ = from->first;
      return job;
    }
    return std::nullopt;
  };
  const auto following = jobs_.upper_bound(last_rank_);
  std::optional<Job> job = take(following, jobs_.end());
  return job ? std::move(job) : take(jobs_.begin(), following);
}

Server::Task Server::wait_for_task() {
  const MutexLock lock(mutex_);
  for (;;) {
    if (stops_) return {};
    if (std::optional<Job> job = take_job()) return {std::move(job), std::nullopt};
    if (!spool_.is_full()) {
      if (std::optional<PlannedBatch> planned = preparation_.next()) {
        ++preparing_;
        return {std::nullopt, std::move(planned)};
      }
    }
    if (preparing_ == 0 && !is_prepared_) {
      is_prepared_ = true;
      prepared_.notify_all();
    }
    changed_.wait(mutex_);
  }
}

// Returns false if the batch cannot be read back and must be loaded.
bool Server::take_prepared(Spool::Kept& prepared, Parcel& parcel) {
  try {
    parcel = prepared.take();
    return true;
  } catch (const FileError& error) {
    log::warning(std::string("delivery: ") + error.what());
    return false;
  }
}

void Server::serve(const Readers& readers, Job job) {
  try {
    Parcel parcel;
    if (!job.prepared || !take_prepared(*job.prepared, parcel)) {
      const auto reader = readers.find(job.request.loader);
      if (reader == readers.end()) {
        job.peer->send_error(job.id, "no loader named '" + job.request.loader +
                                         "' is registered in the loader process");
        return;
      }
      parcel = reader->second(job.request.epoch,
                              {job.request.samples.begin(), job.request.samples.end()});
    }
    job.peer->send(job.id, std::move(parcel));
  } catch (...) {
    job.peer->send_error(job.id, text_of(std::current_exception()));
  }
}

std::optional<Server::Job> Server::take_waiting(std::optional<std::uint64_t> number) {
  if (!number) return std::nullopt;
  auto found = waiting_.extract(*number);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

void Server::prepare(const Readers& readers, const PlannedBatch& planned) {
  std::optional<Spool::Kept> kept;
  std::exception_ptr error;
  try {
    kept = spool_.keep(readers.at(planned.request.loader)(
        planned.request.epoch, {planned.request.samples.begin(), planned.request.samples.end()}));
  } catch (...) {
    error = std::current_exception();
  }
  std::optional<Job> waiting;
  std::optional<Preparation::Unneeded> unneeded;  // destroyed without the lock
  {
    const MutexLock lock(mutex_);
    --preparing_;
    if (error != nullptr) {
      waiting = take_waiting(preparation_.give_up(planned));
      preparation_.withdraw(planned.request.loader);  // the next batch would fail, too
      if (is_prepared_) log::warning("delivery: preparing a batch: " + text_of(error));
      if (failed_ == nullptr) failed_ = error;
    } else if ((unneeded = preparation_.put(planned, std::move(*kept)))) {
      waiting = take_waiting(unneeded->wanted_as);
    }
  }
  prepared_.notify_all();
  if (!waiting) return;
  if (error == nullptr) waiting->prepared = std::move(unneeded->batch);
  serve(readers, std::move(*waiting));
}

}  // namespace kolo::delivery
