// A training rank's connection to one loader process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "core/thread_annotations.hpp"
#include "delivery/connection.hpp"
#include "delivery/message.hpp"
#include "delivery/parcel.hpp"

namespace kolo::delivery {

// Receives the events of links, on the links' own threads.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void on_up(std::size_t link, const Welcome& welcome) = 0;
  // Deliver the answer to a request: a batch, or the reason why it could not be loaded.
  virtual void on_batch(std::size_t link, std::uint64_t id, Parcel parcel) = 0;
  virtual void on_error(std::size_t link, std::uint64_t id, const std::string& message) = 0;
  // Unanswered requests are lost. is_final: the link will not come up again.
  virtual void on_down(std::size_t link, const std::string& why, bool is_final) = 0;
};

// Connects, and reconnects when the connection is lost, because a loader process that died may be
// restarted. Gives up once nobody listens at the address any more.
class Link {
 public:
  struct Options {
    std::size_t number = 0;  // of the loader process
    Address address;
    std::string machine;  // of this process
    Hello hello;
  };
  // `events` must outlive the link.
  Link(const Options& options, LinkEvents& events);
  // Ends the connection; no more events follow. May wait for a connection attempt.
  ~Link();
  // Shortens the wait in the destructor. Any thread may call.
  void stop() KOLO_EXCLUDES(mutex_);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Any thread may call. Throws ConnectionLost if the link is down; on_down() reports that
  // separately.
  void send(std::uint64_t id, const Request& request);
  void send(const Withdraw& withdraw);

 private:
  class Session;

  void run();
  void talk(const std::shared_ptr<Session>& session);
  std::shared_ptr<Session> session() KOLO_EXCLUDES(mutex_);
  // Returns false if the link must stop.
  bool set_session(std::shared_ptr<Session> session) KOLO_EXCLUDES(mutex_);
  bool pause() KOLO_EXCLUDES(mutex_);

  // Constant after construction.
  const Options options_;
  LinkEvents& events_;

  Mutex mutex_;
  CondVar stopped_;
  std::shared_ptr<Session> session_ KOLO_GUARDED_BY(mutex_);  // null if not connected
  bool stops_ KOLO_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // used only by the owner's thread
};

}  // namespace kolo::delivery
