#include "kolo/delivery.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "core/host.hpp"
#include "core/loader_place.hpp"
#include "core/thread_annotations.hpp"
#include "data/batch_reader.hpp"
#include "data/shard.hpp"
#include "delivery/client.hpp"
#include "delivery/remote_source.hpp"
#include "delivery/server.hpp"
#include "delivery/tensors.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "torch_ops/session/session.hpp"

namespace kolo::delivery {
namespace {

struct Registered {
  Factory factory;
  Options options;
};

// The session's loaders. Any thread may call.
class Registry {
 public:
  void add(const std::string& name, Registered loader) {
    const MutexLock lock(mutex_);
    if (!loaders_.emplace(name, std::move(loader)).second) {
      throw InvalidArgumentError("delivery: a loader named '" + name +
                                 "' is registered already; give each a name of its own");
    }
  }

  // Returns the connection to the loader processes, if there is one.
  std::shared_ptr<Client> remove(const std::string& name) {
    const MutexLock lock(mutex_);
    require(name);
    loaders_.erase(name);
    return client_;
  }

  Registered get(const std::string& name) {
    const MutexLock lock(mutex_);
    require(name);
    return loaders_.at(name);
  }

  std::map<std::string, Registered> all() {
    const MutexLock lock(mutex_);
    return loaders_;
  }

  // Returns the connection to the loader processes. All loaders share it, so the options of the
  // first open() hold.
  std::shared_ptr<Client> client(const ClientOptions& options) {
    const MutexLock lock(mutex_);
    if (client_ == nullptr) client_ = std::make_shared<Client>(options);
    return client_;
  }

 private:
  void require(const std::string& name) const KOLO_REQUIRES(mutex_) {
    if (loaders_.count(name) > 0) return;
    std::string names;
    for (const auto& [known, loader] : loaders_) names += (names.empty() ? "" : ", ") + known;
    throw InvalidArgumentError(
        "delivery: no loader named '" + name + "' is registered; " +
        (names.empty() ? "call register_loader() first" : "these are: " + names));
  }

  Mutex mutex_;
  std::map<std::string, Registered> loaders_ KOLO_GUARDED_BY(mutex_);
  std::shared_ptr<Client> client_ KOLO_GUARDED_BY(mutex_);
};

std::shared_ptr<Registry> registry(const char* call) {
  return session(call)->part<Registry>();
}

std::string variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): programs set no variables of kolo's
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Describes what must be equal in a training rank and a loader process.
std::string settings_of(const Options& options) {
  const DataLoaderOptions& loader = options.loader();
  return "batch_size " + std::to_string(loader.batch_size()) + ", seed " +
         std::to_string(loader.seed()) + ", drop_last " + (loader.drop_last() ? "true" : "false") +
         ", shuffle " + (options.shuffle() ? "true" : "false");
}

DistributedSampler sampler_of(std::size_t samples, const Options& options, int ranks, int rank) {
  DistributedSampler::Options share;
  share.num_replicas = ranks;
  share.rank = rank;
  share.shuffle = options.shuffle();
  share.seed = options.loader().seed();
  return {samples, share};
}

// --- loader processes ---

// The order of all ranks' samples in an epoch, the same as DistributedSampler's. Computed once for
// all ranks.
class EpochOrder {
 public:
  EpochOrder(std::size_t samples, const Options& options)
      : order_(options.shuffle() ? data::SampleOrder::shuffled(samples)
                                 : data::SampleOrder::sequential(samples)),
        seed_(options.loader().seed()) {}

  const std::vector<std::size_t>& of_epoch(std::uint64_t epoch) {
    if (epoch_ != epoch) made_ = order_.of_epoch(seed_, epoch);
    epoch_ = epoch;
    return made_;
  }

 private:
  data::SampleOrder order_;
  std::uint64_t seed_;
  std::optional<std::uint64_t> epoch_;
  std::vector<std::size_t> made_;  // the order of epoch_
};

Served served(const std::string& name, const Registered& loader, const LoaderPlace& place) {
  const Source source = loader.factory();
  const Options& options = loader.options;
  Served made;
  made.info = {name, source.dataset.size(), static_cast<std::uint32_t>(source.transforms.size()),
               settings_of(options)};
  made.plan.loader = name;
  made.plan.batch_size = static_cast<std::size_t>(options.loader().batch_size());
  made.plan.drop_last = options.loader().drop_last();
  made.plan.share = [order = EpochOrder(source.dataset.size(), options),
                     ranks = static_cast<std::size_t>(place.ranks)](std::uint32_t rank,
                                                                    std::uint64_t epoch) mutable {
    return data::share_of(order.of_epoch(epoch), {ranks, rank, false});
  };
  made.make_reader = [source, seed = options.loader().seed()]() -> LoadParcel {
    return [reader = data::BatchReader(source.dataset, source.transforms, seed)](
               std::uint64_t epoch, const std::vector<std::size_t>& samples) {
      return to_parcel(reader.read(epoch, samples));
    };
  };
  return made;
}

[[noreturn]] void serve(const std::map<std::string, Registered>& loaders,
                        const LoaderPlace& place) {
  ServerOptions options;
  options.preparation = {
      static_cast<std::size_t>(place.number), static_cast<std::size_t>(place.count),
      static_cast<std::uint32_t>(place.ranks), static_cast<std::size_t>(place.units)};
  options.token = variable(kLoaderTokenVariable);
  options.memory_bytes = static_cast<std::size_t>(place.memory_bytes);
  options.spool = place.spool;
  std::vector<Served> all;
  for (const auto& [name, loader] : loaders) {
    all.push_back(served(name, loader, place));
    const auto workers = static_cast<unsigned>(loader.options.loader().workers());
    options.workers = std::max(options.workers, workers);
  }
  std::vector<Fd> listeners;
  for (const int listener : place.listeners) listeners.emplace_back(listener);
  Server server(options, std::move(all), std::move(listeners));
  server.wait_until_prepared();
  // Ignores the signals that are meant for the training ranks, which need data until they have
  // saved their state. kolo-loader ends this process with SIGKILL.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
    (void)std::signal(number, SIG_IGN);
  const char ready = '\n';
  if (place.ready >= 0 && ::write(place.ready, &ready, 1) != 1)
    throw InternalError("delivery: kolo run no longer listens to its loader process");
  for (;;) ::pause();
}

// --- training ranks ---

LoaderInfo info_of(const Welcome& welcome, const std::string& name, const Options& options) {
  const auto found = std::find_if(welcome.loaders.begin(), welcome.loaders.end(),
                                  [&](const LoaderInfo& info) { return info.name == name; });
  if (found == welcome.loaders.end()) {
    throw InvalidArgumentError(
        "delivery: the loader processes serve no loader named '" + name +
        "', because it was not registered before the first open(); call register_loader() for all "
        "loaders first");
  }
  const std::string settings = settings_of(options);
  if (found->settings == settings) return *found;
  throw InvalidArgumentError("delivery: the loader '" + name + "' has " + settings +
                             " in this rank, and " + found->settings +
                             " in the loader processes; they must be the same");
}

DataLoader open_remote(Registry& registry, const std::string& name, const Options& options) {
  ClientOptions connection;
  std::istringstream words(variable(kLoadersVariable));
  for (std::string word; words >> word;) {
    const std::optional<Address> address = to_address(word);
    if (!address) {
      throw InvalidArgumentError(std::string("the environment variable ") + kLoadersVariable +
                                 " holds '" + word +
                                 "', which is not the address of a loader; unset it");
    }
    connection.loaders.push_back(*address);
  }
  connection.machine = machine_id();
  connection.hello = {variable(kLoaderTokenVariable), static_cast<std::uint32_t>(rank())};
  connection.timeout_seconds = options.timeout();
  const std::shared_ptr<Client> client = registry.client(connection);
  const Welcome welcome = client->wait_for_welcome();
  const LoaderInfo info = info_of(welcome, name, options);
  // Requests in flight keep all threads of the loader processes busy; this many batches wait.
  const std::size_t ahead =
      client->loaders() * welcome.workers * static_cast<std::size_t>(options.loader().prefetch());
  const auto ranks = static_cast<std::size_t>(size());
  DataLoaderOptions own = options.loader();
  own.workers(static_cast<int>(std::clamp<std::size_t>((ahead + ranks - 1) / ranks, 2, 64)));
  own.prefetch(1);
  return kolo::detail::make_loader(
      std::make_shared<RemoteSource>(client, info, static_cast<std::size_t>(own.batch_size())),
      sampler_of(static_cast<std::size_t>(info.samples), options, size(), rank()), own);
}

DataLoader open_here(const Registered& loader) {
  Source source = loader.factory();
  const std::size_t samples = source.dataset.size();
  DataLoader opened(std::move(source.dataset), sampler_of(samples, loader.options, size(), rank()),
                    loader.options.loader());
  for (data::Transform& transform : source.transforms) opened.transform(std::move(transform));
  return opened;
}

}  // namespace

void register_loader(const std::string& name, Factory factory, const Options& options) {
  if (name.empty()) throw InvalidArgumentError("delivery: a loader needs a name");
  if (factory == nullptr)
    throw InvalidArgumentError("delivery: the loader '" + name + "' has no factory");
  const DataLoaderOptions& loader = options.loader();
  if (loader.batch_size() < 1 || loader.workers() < 0 || loader.prefetch() < 1) {
    throw InvalidArgumentError(
        "delivery: the loader '" + name +
        "' needs a batch_size of 1 or more, workers of 0 or more, and a prefetch of 1 or more");
  }
  if (!(options.timeout() > 0))
    throw InvalidArgumentError("delivery: the loader '" + name + "' needs a timeout above 0");
  registry("delivery::register_loader")->add(name, {std::move(factory), options});
}

void unregister_loader(const std::string& name) {
  const std::shared_ptr<Client> client = registry("delivery::unregister_loader")->remove(name);
  if (client != nullptr) client->withdraw(name);
}

DataLoader open(const std::string& name) {
  const std::shared_ptr<Registry> loaders = registry("delivery::open");
  const Registered loader = loaders->get(name);
  if (const std::optional<LoaderPlace> place = own_loader_place()) serve(loaders->all(), *place);
  if (variable(kLoadersVariable).empty()) return open_here(loader);
  return open_remote(*loaders, name, loader.options);
}

DataLoader open(const std::string& name, Factory factory, const Options& options) {
  register_loader(name, std::move(factory), options);
  return open(name);
}

bool is_loader_process() {
  return own_loader_place().has_value();
}

}  // namespace kolo::delivery
