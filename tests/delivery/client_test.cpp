// A client and loader processes, which are servers in this process: whatever happens to a loader,
// each request gets the batch of its samples.
#include "delivery/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "core/listen.hpp"
#include "delivery/parcels.hpp"
#include "delivery/server.hpp"
#include "kolo/error.h"

namespace kolo::delivery {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::size_t kSamples = 1000;
constexpr std::size_t kBatch = 10;
const std::string kMachine = "this one";

std::string text_of_batch(std::uint64_t epoch, const std::vector<std::size_t>& samples) {
  std::string text = std::to_string(epoch) + ":";
  for (const std::size_t sample : samples) text += " " + std::to_string(sample);
  return text;
}

// What happens while a batch is loaded.
using Cost = std::function<void(const std::vector<std::size_t>& samples)>;

// A loader process's server at an address of its own.
class Loader {
 public:
  explicit Loader(Cost cost = {}, Preparation::Options place = {}, const std::string& token = "t",
                  std::size_t samples = kSamples) {
    static std::atomic<int> count{0};
    address_.host = "127.0.0.1";
    address_.machine = kMachine;
    address_.name = "kolo-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
    std::vector<Fd> listeners;
    listeners.push_back(listen_on_network(true, address_.port));
    listeners.push_back(listen_on_host(address_.name));
    place.ranks = 4;
    ServerOptions options;
    options.preparation = place;
    options.token = token;
    options.workers = 2;
    server_.emplace(options, serve(std::move(cost), samples), std::move(listeners));
  }

  const Address& address() const { return address_; }
  Server& server() { return *server_; }
  void end() { server_.reset(); }
  int loads() const { return *loads_; }

 private:
  std::vector<Served> serve(Cost cost, std::size_t count) {
    Served served;
    served.info = {"train", count, 0, ""};
    served.plan = {"train", kBatch, false, [](std::uint32_t rank, std::uint64_t) {
                     std::vector<std::size_t> share(kSamples / 4);
                     std::iota(share.begin(), share.end(), rank * kSamples / 4);
                     return share;
                   }};
    served.make_reader = [cost = std::move(cost), loads = loads_]() -> LoadParcel {
      return [cost, loads](std::uint64_t epoch, const std::vector<std::size_t>& samples) {
        ++*loads;
        if (cost) cost(samples);
        return test::parcel_of(text_of_batch(epoch, samples));
      };
    };
    return {served};
  }

  Address address_;
  std::shared_ptr<std::atomic<int>> loads_ = std::make_shared<std::atomic<int>>(0);
  std::optional<Server> server_;
};

ClientOptions options_of(const std::vector<Loader*>& loaders, std::uint32_t rank = 0,
                         const std::string& machine = kMachine) {
  ClientOptions options;
  for (const Loader* loader : loaders) options.loaders.push_back(loader->address());
  options.machine = machine;
  options.hello = {"t", rank};
  options.timeout_seconds = 60;
  options.takeover_seconds = 30;
  return options;
}

Request request_of(std::uint64_t batch, std::uint32_t rank = 0) {
  Request request{"train", batch / 25, batch % 25 * kBatch, {}};
  for (std::size_t i = 0; i < kBatch; ++i)
    request.samples.push_back(rank * kSamples / 4 + request.position + i);
  return request;
}

std::string right(const Request& request) {
  return text_of_batch(request.epoch, {request.samples.begin(), request.samples.end()});
}

const std::atomic<bool> kGoesOn{false};

// Loads the batches in several threads; returns how many are not right.
int load_all(Client& client, int batches, std::uint32_t rank = 0, int threads = 4) {
  std::atomic<int> next{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i = next++; i < batches; i = next++) {
        const auto number = static_cast<std::uint64_t>(i);
        const Request request = request_of(number, rank);
        if (test::text_of(client.load(request, number, kGoesOn)) != right(request)) ++wrong;
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  return wrong;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Delivery, BatchesComeOverBothKindsOfSockets) {
  Loader first;
  Loader second;
  for (const std::string& machine : {kMachine, std::string("another")}) {
    Client client(options_of({&first, &second}, 1, machine));
    const Welcome welcome = client.wait_for_welcome();
    EXPECT_EQ(welcome.workers, 2U);
    ASSERT_EQ(welcome.loaders.size(), 1U);
    EXPECT_EQ(welcome.loaders[0], (LoaderInfo{"train", kSamples, 0, ""}));
    EXPECT_EQ(load_all(client, 200, 1), 0);
  }
  EXPECT_EQ(first.loads() + second.loads(), 400);
  EXPECT_GT(std::min(first.loads(), second.loads()), 0) << "both have loaded";
}

// Batches of one machine lie in memory that comes from few slots, and outlive the connection.
TEST(Delivery, SharedMemoryIsReused) {
  Loader loader;
  std::optional<Client> client(std::in_place, options_of({&loader}));
  std::set<const std::byte*> places;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Parcel parcel = client->load(request_of(i), i, kGoesOn);
    places.insert(parcel.arrays[0].bytes.data());
  }
  EXPECT_LE(places.size(), 3U);
  std::vector<Parcel> kept;
  for (std::uint64_t i = 0; i < 20; ++i) kept.push_back(client->load(request_of(i), i, kGoesOn));
  client.reset();
  loader.end();
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(test::text_of(kept[i]), right(request_of(i)));
}

TEST(Delivery, PreparedBatchesAreNotLoadedAgain) {
  std::mutex mutex;
  std::map<std::size_t, int> counts;  // of loads, by the first sample
  const Cost count = [&](const std::vector<std::size_t>& samples) {
    const std::lock_guard<std::mutex> lock(mutex);
    ++counts[samples[0]];
  };
  Loader first(count, {0, 2, 4, 400});
  Loader second(count, {1, 2, 4, 400});
  first.server().wait_until_prepared();
  second.server().wait_until_prepared();
  EXPECT_EQ(first.loads(), 20);
  EXPECT_EQ(second.loads(), 20);
  Client client(options_of({&first, &second}, 2));
  client.wait_for_welcome();
  EXPECT_EQ(load_all(client, 10, 2, 1), 0);
  first.end();
  second.end();
  for (std::size_t batch = 0; batch < 10; ++batch)
    EXPECT_EQ(counts[2 * kSamples / 4 + batch * kBatch], 1) << "batch " << batch;
}

TEST(Delivery, AnErrorOfTheFactorysDataStopsThePreparation) {
  Loader loader([](const auto&) { throw std::runtime_error("the disk is away"); }, {0, 1, 4, 40});
  EXPECT_THROW(loader.server().wait_until_prepared(), std::runtime_error);
  EXPECT_LE(loader.loads(), 2) << "one for each worker";
}

TEST(Delivery, ErrorsOfLoadingReachTheRank) {
  Loader loader([](const std::vector<std::size_t>& samples) {
    if (samples[0] == 20) throw std::runtime_error("sample 20 is damaged");
  });
  Client client(options_of({&loader}));
  EXPECT_EQ(message_of([&] { client.load(request_of(2), 2, kGoesOn); }), "sample 20 is damaged");
  EXPECT_EQ(test::text_of(client.load(request_of(3), 3, kGoesOn)), right(request_of(3)));
  Request unknown = request_of(0);
  unknown.loader = "valid";
  EXPECT_THAT(message_of([&] { client.load(unknown, 0, kGoesOn); }), HasSubstr("'valid'"));
}

TEST(Delivery, OthersTakeOverFromALoaderThatEnds) {
  Loader first([](const auto&) { std::this_thread::sleep_for(1ms); });
  Loader second([](const auto&) { std::this_thread::sleep_for(1ms); });
  Client client(options_of({&first, &second}));
  client.wait_for_welcome();
  std::thread ending([&] {
    while (first.loads() < 30) std::this_thread::sleep_for(1ms);
    first.end();
  });
  EXPECT_EQ(load_all(client, 300), 0);
  ending.join();
  EXPECT_GE(first.loads(), 30);
}

// A loader that is stopped keeps its connection, and answers nothing.
TEST(Delivery, OthersTakeOverFromALoaderThatIsStopped) {
  std::promise<void> going_on;
  const std::shared_future<void> can_go_on = going_on.get_future().share();
  Loader first([can_go_on](const auto&) { can_go_on.wait(); });
  Loader second;
  ClientOptions options = options_of({&first, &second});
  options.takeover_seconds = 0.05;
  Client client(options);
  client.wait_for_welcome();
  EXPECT_EQ(load_all(client, 50), 0);
  EXPECT_GE(first.loads(), 1);
  going_on.set_value();  // its late answers are dropped
  EXPECT_EQ(load_all(client, 50), 0);
}

TEST(Delivery, NoLoaderLeft) {
  Loader only;
  Client client(options_of({&only}));
  EXPECT_EQ(load_all(client, 5), 0);
  only.end();
  EXPECT_THAT(message_of([&] { client.load(request_of(3), 3, kGoesOn); }),
              AllOf(HasSubstr("no loader process is left to load the batch at position 30"),
                    HasSubstr("loader 0 (127.0.0.1:"), HasSubstr("Connection refused")));
}

TEST(Delivery, ALoaderThatDoesNotAnswerInTime) {
  std::promise<void> going_on;
  const std::shared_future<void> can_go_on = going_on.get_future().share();
  Loader only([can_go_on](const auto&) { can_go_on.wait(); });
  ClientOptions options = options_of({&only});
  options.timeout_seconds = 1;
  Client client(options);
  EXPECT_THAT(message_of([&] { client.load(request_of(7), 7, kGoesOn); }),
              AllOf(HasSubstr("the batch at position 70 of epoch 0 of loader 'train'"),
                    HasSubstr("within 1 s"), HasSubstr("loader 0 (127.0.0.1:")));
  going_on.set_value();
}

TEST(Delivery, ALoadingThatIsCancelled) {
  std::promise<void> going_on;
  const std::shared_future<void> can_go_on = going_on.get_future().share();
  Loader only([can_go_on](const auto&) { can_go_on.wait(); });
  Client client(options_of({&only}));
  std::atomic<bool> is_cancelled{false};
  std::thread cancelling([&] {
    while (only.loads() == 0) std::this_thread::sleep_for(1ms);
    is_cancelled = true;
    client.wake();
  });
  EXPECT_THAT(message_of([&] { client.load(request_of(0), 0, is_cancelled); }),
              HasSubstr("cancelled"));
  cancelling.join();
  going_on.set_value();
}

TEST(Delivery, StrangersGetNothing) {
  Loader loader({}, {}, "the secret of this job");
  ClientOptions options = options_of({&loader});
  options.timeout_seconds = 1;
  options.hello.token = "another";
  Client client(options);
  EXPECT_THAT(message_of([&] { client.wait_for_welcome(); }), HasSubstr("within 1 s"));
}

// Bytes that are no messages end a connection, and nothing else.
TEST(Delivery, GarbageEndsOneConnection) {
  Loader loader;
  Client client(options_of({&loader}));
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    const Connection stranger =
        Connection::connect(loader.address(), i % 2 == 0 ? kMachine : "", Clock::now() + 10s);
    Bytes bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    try {
      if (i % 3 > 0) stranger.send(FrameKind::kHello, 0, encode(Hello{"t", 1}));
      if (i % 3 > 0) (void)stranger.receive();  // the welcome
      stranger.send(static_cast<FrameKind>(1 + random() % 7), random(), bytes);
      stranger.send(FrameKind::kRequest, 0, bytes);
    } catch (const ConnectionLost&) {
      continue;  // it was noticed at once
    }
  }
  EXPECT_EQ(load_all(client, 50), 0);
}

// A rank whose loader reads nothing any more asks another one: its requests do not block for ever.
TEST(Delivery, ALoaderThatReadsNothing) {
  int port = 0;
  const Fd network = listen_on_network(true, port);
  Loader second;
  ClientOptions options = options_of({&second});
  const std::string name = "kolo-test-deaf-" + std::to_string(::getpid());
  const Fd deaf = listen_on_host(name);
  options.loaders.insert(options.loaders.begin(), {"127.0.0.1", port, kMachine, name});
  // It says its welcome, and reads no request.
  std::thread greeting([&] {
    const Connection connection(Fd(::accept(deaf.get(), nullptr, nullptr)));
    (void)connection.receive();
    connection.send(FrameKind::kWelcome, 0, encode(Welcome{2, {{"train", kSamples, 0, ""}}}));
    Fd again(::accept(deaf.get(), nullptr, nullptr));  // after the connection was given up
  });
  Client client(options);
  client.wait_for_welcome();
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (std::uint64_t i = 0; i < 20; ++i) {
    all.emplace_back([&, i] {
      Request request = request_of(0);
      request.samples.assign(200'000, i);  // more than a socket holds
      if (test::text_of(client.load(request, 0, kGoesOn)) != right(request)) ++wrong;
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(wrong, 0);
  greeting.join();
}

// A loader process that is being started again takes connections and says nothing.
TEST(Delivery, ASilentLoaderHoldsNobodyUp) {
  int port = 0;
  const Fd network = listen_on_network(true, port);
  Loader second;
  ClientOptions options = options_of({&second});
  options.loaders.insert(options.loaders.begin(), {"127.0.0.1", port, "elsewhere", "nobody"});
  options.patience_seconds = 0.2;
  Client client(options);
  EXPECT_EQ(client.wait_for_welcome().loaders.size(), 1U);
  EXPECT_EQ(load_all(client, 50), 0);
}

TEST(Delivery, LoadersWithOtherDataAreRefused) {
  Loader first;
  Loader second({}, {}, "t", kSamples + 1);
  Client client(options_of({&first, &second}));
  EXPECT_THAT(
      message_of([&] { client.wait_for_welcome(); }),
      AllOf(HasSubstr("'train' with 1000 samples"), HasSubstr("'train' with 1001 samples")));
}

// A rank that asks for much at once does not hold up the others.
TEST(Delivery, RanksAreServedInTurn) {
  std::mutex mutex;
  std::vector<std::size_t> order;  // first samples
  std::promise<void> going_on;
  const std::shared_future<void> can_go_on = going_on.get_future().share();
  Loader loader([&, can_go_on](const std::vector<std::size_t>& samples) {
    can_go_on.wait();
    const std::lock_guard<std::mutex> lock(mutex);
    order.push_back(samples[0]);
  });
  Client greedy(options_of({&loader}, 1));
  Client modest(options_of({&loader}, 0));
  std::thread first([&] { EXPECT_EQ(load_all(greedy, 40, 1, 40), 0); });
  while (loader.loads() < 2) std::this_thread::sleep_for(1ms);
  std::thread second([&] { EXPECT_EQ(load_all(modest, 5, 0, 5), 0); });
  while (loader.server().waiting_requests() < 43) std::this_thread::sleep_for(1ms);
  going_on.set_value();
  first.join();
  second.join();
  const auto last = std::find_if(order.rbegin(), order.rend(),
                                 [](std::size_t sample) { return sample < kSamples / 4; });
  // Two were being loaded; then come 5 of either rank.
  EXPECT_LE(order.rend() - last, 14);
}

}  // namespace
}  // namespace kolo::delivery
