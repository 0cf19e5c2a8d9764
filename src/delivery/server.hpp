// A loader process's server, which loads batches for the training ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/fd.hpp"
#include "core/thread_annotations.hpp"
#include "delivery/message.hpp"
#include "delivery/parcel.hpp"
#include "delivery/preparation.hpp"
#include "delivery/spool.hpp"

namespace kolo::delivery {

// A registered loader.
struct Served {
  LoaderInfo info;
  BatchPlan plan;
  std::function<LoadParcel()> make_reader;  // called once per worker
};

struct ServerOptions {
  Preparation::Options preparation;
  std::string token;
  unsigned workers = 1;                              // loading threads
  std::size_t memory_bytes = std::size_t{1} << 30U;  // for prepared batches
  std::string spool;                                 // see Spool
};

class Peer;

// Answers requests of the training ranks: several at once, taking the ranks in turn. Idle workers
// prepare batches. Holds only what the ranks have asked for and what is prepared.
class Server {
 public:
  // Serves ranks that connect to any of the listening sockets. Throws std::system_error or
  // FileError.
  Server(const ServerOptions& options, std::vector<Served> served, std::vector<Fd> listeners);
  // Closes all connections, and waits for the batches that are being loaded.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Waits until `units` samples are prepared, or as many as there is room for. Rethrows the
  // exception if loading one failed.
  void wait_until_prepared() KOLO_EXCLUDES(mutex_);

  // Returns the number of requests that no worker has begun to serve.
  std::size_t waiting_requests() KOLO_EXCLUDES(mutex_);

 private:
  struct Job {
    std::shared_ptr<Peer> peer;
    std::uint64_t id = 0;
    Request request;
    std::optional<Spool::Kept> prepared;
  };
  struct Task {
    std::optional<Job> job;
    std::optional<PlannedBatch> planned;  // if there is no job
  };
  using Readers = std::map<std::string, LoadParcel>;

  void stop();
  void accept_peers();
  void listen_to(const std::shared_ptr<Peer>& peer);
  void on_request(const std::shared_ptr<Peer>& peer, std::uint64_t id, Request request)
      KOLO_EXCLUDES(mutex_);
  void work(const Readers& readers);
  Readers make_readers() const;
  // Returns an empty task if the worker must stop.
  Task wait_for_task() KOLO_EXCLUDES(mutex_);
  std::optional<Job> take_job() KOLO_REQUIRES(mutex_);
  static bool take_prepared(Spool::Kept& prepared, Parcel& parcel);
  void serve(const Readers& readers, Job job);
  void prepare(const Readers& readers, const PlannedBatch& planned) KOLO_EXCLUDES(mutex_);
  std::optional<Job> take_waiting(std::optional<std::uint64_t> number) KOLO_REQUIRES(mutex_);

  // Constant after construction.
  const ServerOptions options_;
  const std::vector<Served> served_;
  const std::vector<Fd> listeners_;
  Fd stop_;  // readable once the server must stop

  Spool spool_;
  Mutex mutex_;
  CondVar changed_;   // for workers
  CondVar prepared_;  // for wait_until_prepared()
  Preparation preparation_ KOLO_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::deque<Job>> jobs_ KOLO_GUARDED_BY(mutex_);  // by rank
  std::uint32_t last_rank_ KOLO_GUARDED_BY(mutex_) = 0;                    // the rank served last
  std::map<std::uint64_t, Job> waiting_ KOLO_GUARDED_BY(mutex_);  // for a batch being prepared
  std::uint64_t next_number_ KOLO_GUARDED_BY(mutex_) = 1;         // key for waiting_
  unsigned preparing_ KOLO_GUARDED_BY(mutex_) = 0;                // workers that prepare a batch
  bool is_prepared_ KOLO_GUARDED_BY(mutex_) = false;
  std::exception_ptr failed_ KOLO_GUARDED_BY(mutex_);  // why a batch could not be prepared
  bool stops_ KOLO_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> workers_;  // used only by the owner's thread
  std::thread accepting_;
};

}  // namespace kolo::delivery
