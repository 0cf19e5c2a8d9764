#include "delivery/link.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/shm/segment.hpp"
#include "delivery/places.hpp"

namespace kolo::delivery {
namespace {

constexpr double kConnectSeconds = 10;
// A loader process that reads nothing for this long counts as stopped.
constexpr double kSendSeconds = 5;
constexpr auto kPause = std::chrono::milliseconds(200);
// Number of refusals in a row after which the link gives up. A loader process's socket keeps
// listening while the process is restarted.
constexpr int kMostRefusals = 5;

// Slots whose batches the program has destroyed. The loader is informed of them.
class Releases {
 public:
  void add(std::uint32_t slot) {
    const MutexLock lock(mutex_);
    slots_.push_back(slot);
  }
  std::vector<std::uint32_t> take() {
    const MutexLock lock(mutex_);
    return std::exchange(slots_, {});
  }

 private:
  Mutex mutex_;
  std::vector<std::uint32_t> slots_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace

// A connection, from its hello to its loss.
class Link::Session {
 public:
  explicit Session(Connection connection)
      : connection_(std::move(connection)), releases_(std::make_shared<Releases>()) {
    connection_.limit_sending(kSendSeconds);
  }

  const Connection& connection() const { return connection_; }

  void send(FrameKind kind, std::uint64_t id, const Bytes& body) {
    const MutexLock lock(sending_);
    try {
      const std::vector<std::uint32_t> released = releases_->take();
      if (!released.empty()) connection_.send(FrameKind::kRelease, 0, encode(Release{released}));
      connection_.send(kind, id, body);
    } catch (...) {  // half a frame may have been sent
      connection_.close_both();
      throw;
    }
  }

  // Receives the batch that a frame announces. Called on the link's thread.
  Parcel receive_batch(Frame frame) {
    const std::optional<BatchPlaces> places = decode<BatchPlaces>(frame.body);
    if (!places) throw ConnectionLost("malformed batch frame");
    if (places->slot > 0) return parcel_in_slot(*places, std::move(frame.descriptor));
    if (places->size != frame.head.payload) throw ConnectionLost("the loader sent half a batch");
    const auto size = static_cast<std::size_t>(places->size);
    const std::shared_ptr<std::byte> memory = allocate(size);
    connection_.receive_payload({memory.get(), size});
    return parcel_in({memory.get(), size}, *places, memory);
  }

 private:
  Parcel parcel_in_slot(const BatchPlaces& places, Fd descriptor) {
    std::shared_ptr<shm::Segment>& memory = slots_[places.slot];
    if (descriptor.is_open()) {
      auto segment = std::make_shared<shm::Segment>();
      const Status adopted = shm::Segment::adopt(descriptor.release(), *segment);
      if (!adopted.is_ok()) throw ConnectionLost(adopted.message());
      segment->close_descriptor();
      memory = std::move(segment);
    }
    if (memory == nullptr || places.size > memory->size())
      throw ConnectionLost("the loader sent a batch in memory that it has not shared");
    const std::shared_ptr<void> lease(
        memory->data(),
        [held = memory, releases = releases_, slot = places.slot](void*) { releases->add(slot); });
    return parcel_in(memory->bytes(), places, lease);
  }

  const Connection connection_;
  const std::shared_ptr<Releases> releases_;
  std::map<std::uint32_t, std::shared_ptr<shm::Segment>> slots_;  // used only by the link's thread
  Mutex sending_;
};

Link::Link(const Options& options, LinkEvents& events)
    : options_(options), events_(events), thread_([this] { run(); }) {}

Link::~Link() {
  stop();
  thread_.join();
}

void Link::stop() {
  std::shared_ptr<Session> ending;
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    ending = session_;
  }
  stopped_.notify_all();
  if (ending != nullptr) ending->connection().close_both();
}

std::shared_ptr<Link::Session> Link::session() {
  const MutexLock lock(mutex_);
  if (session_ == nullptr) throw ConnectionLost("the loader is not connected");
  return session_;
}

bool Link::set_session(std::shared_ptr<Session> session) {
  const MutexLock lock(mutex_);
  session_ = std::move(session);
  return !stops_;
}

bool Link::pause() {
  const Clock::time_point end = Clock::now() + kPause;
  const MutexLock lock(mutex_);
  while (!stops_ && Clock::now() < end) stopped_.wait_until(mutex_, end);
  return !stops_;
}

void Link::send(std::uint64_t id, const Request& request) {
  session()->send(FrameKind::kRequest, id, encode(request));
}

void Link::send(const Withdraw& withdraw) {
  session()->send(FrameKind::kWithdraw, 0, encode(withdraw));
}

void Link::talk(const std::shared_ptr<Session>& session) {
  for (;;) {
    Frame frame = session->connection().receive();
    if (frame.head.kind == FrameKind::kBatch) {
      const std::uint64_t id = frame.head.id;
      events_.on_batch(options_.number, id, session->receive_batch(std::move(frame)));
    } else if (frame.head.kind == FrameKind::kError) {
      const std::optional<Failure> failure = decode<Failure>(frame.body);
      if (!failure) throw ConnectionLost("malformed error frame");
      events_.on_error(options_.number, frame.head.id, failure->message);
    } else if (frame.head.kind == FrameKind::kWelcome) {
      const std::optional<Welcome> welcome = decode<Welcome>(frame.body);
      if (!welcome) throw ConnectionLost("the loader runs another version of kolo");
      events_.on_up(options_.number, *welcome);
    } else {
      throw ConnectionLost("unexpected frame");
    }
  }
}

void Link::run() {
  int refusals = 0;
  do {
    std::string why;
    try {
      const auto session = std::make_shared<Session>(Connection::connect(
          options_.address, options_.machine, Clock::now() + seconds(kConnectSeconds)));
      refusals = 0;
      session->send(FrameKind::kHello, 0, encode(options_.hello));
      if (set_session(session)) talk(session);
    } catch (const ConnectionRefused& refused) {
      ++refusals;
      why = refused.what();
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (!set_session(nullptr)) return;
    events_.on_down(options_.number, why, refusals == kMostRefusals);
  } while (refusals < kMostRefusals && pause());
}

}  // namespace kolo::delivery
