#include "cli/run/loader_team.hpp"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "cli/rank/failure.hpp"
#include "cli/run/supervise.hpp"
#include "core/clock.hpp"
#include "core/loader_place.hpp"

namespace kolo::cli {
namespace {

constexpr double kReportSeconds = 60.0;
constexpr int kPollMilliseconds = 500;  // so that deadlines are noticed
constexpr double kEndSeconds = 3.0;     // until a loader that should end is forced to

// Returns 128 random bits that nobody can guess.
std::string make_token() {
  std::random_device random;
  std::ostringstream text;
  text << std::hex;
  for (int i = 0; i < 4; ++i) text << random() << '-';
  return text.str();
}

LoaderParent parent_on(const LoaderHost& host, const LaunchRequest& launch) {
  if (host.component > 0) return LoaderParent::kSrun;
  const bool is_own = host.name == "localhost" || is_this_host(host.name, launch.own_host);
  return is_own ? LoaderParent::kKoloRun : LoaderParent::kMpirun;
}

// Plans a launcher for one process on another host.
LaunchPlan plan_mpirun(const std::string& host, LaunchRequest launch) {
  launch.size = 1;
  launch.bind_to = "none";
  launch.hosts = {{host, 1, true}};
  LaunchPlan plan = plan_launcher(launch);
  plan.command.insert(plan.command.end(), launch.mpi_args.begin(), launch.mpi_args.end());
  return plan;
}

LaunchPlan plan_srun(const LoaderHost& host, const Variables& set) {
  LaunchPlan plan;
  plan.set = set;
  plan.set.emplace_back("SLURM_EXPORT_ENV", "ALL");
  plan.unset = {"SRUN_CPUS_PER_TASK", "SRUN_EXPORT_ENV"};
  plan.command = {"srun",
                  "--het-group=" + std::to_string(host.component),
                  "--nodes=1",
                  "--ntasks=1",
                  "--nodelist=" + host.name,
                  "--overlap",
                  "--cpu-bind=none",
                  "--mem=0",
                  "--gres=none",
                  "--mpi=none",
                  "--kill-on-bad-exit=0"};
  return plan;
}

std::vector<int> signals_to_take() {
  std::vector<int> all = {SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};
  if (!is_ignored(SIGHUP)) all.push_back(SIGHUP);
  return all;
}

bool has_ended(pid_t pid) {
  const pid_t ended = ::waitpid(pid, nullptr, WNOHANG);
  return ended == pid || (ended == -1 && errno == ECHILD);  // supervise() may have waited for it
}

bool ends_before(pid_t pid, Clock::time_point deadline) {
  while (!has_ended(pid)) {
    const double left = to_seconds(deadline - Clock::now());
    if (left <= 0) return false;
    const Fd watch = watch_process(pid);
    pollfd polled{watch.get(), POLLIN, 0};
    (void)::poll(&polled, 1, std::min(20, static_cast<int>(left * 1000) + 1));
  }
  return true;
}

}  // namespace

LaunchPlan plan_loader(const LoaderHost& host, const LaunchRequest& launch) {
  switch (parent_on(host, launch)) {
    case LoaderParent::kMpirun:
      return plan_mpirun(host.name, launch);
    case LoaderParent::kSrun:
      return plan_srun(host, launch.extra);
    case LoaderParent::kKoloRun:
      break;
  }
  LaunchPlan plan;
  plan.set = launch.extra;
  return plan;
}

std::vector<LoaderHost> loader_hosts(const std::vector<Host>& hosts,
                                     const std::vector<Component>& components, int ranks,
                                     int count) {
  std::vector<LoaderHost> of_ranks;
  std::vector<LoaderHost> free;
  for (const Component& component : components) {
    for (const Host& host : component.hosts)
      free.insert(free.end(), static_cast<std::size_t>(host.slots), {host.name, component.number});
  }
  const bool has_tasks = !free.empty();
  for (const Host& host : hosts) {
    const bool has_ranks = ranks > 0;
    ranks -= host.slots;
    if (has_ranks || has_tasks) {
      of_ranks.push_back({host.name});
    } else {
      free.push_back({host.name});
    }
  }
  const std::vector<LoaderHost>& from = free.empty() ? of_ranks : free;
  std::vector<LoaderHost> chosen;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    chosen.push_back(from.empty() ? LoaderHost{"localhost"} : from[i % from.size()]);
  return chosen;
}

std::vector<Host> hosts_of_ranks(const std::vector<Host>& hosts, int ranks) {
  std::vector<Host> filled;
  for (const Host& host : hosts) {
    if (ranks <= 0) break;
    filled.push_back(host);
    ranks -= host.slots;
  }
  return filled;
}

LoaderTeam::LoaderTeam(const LoaderRequest& request, const LaunchRequest& launch)
    : token_(make_token()) {
  become_reaper();
  for (const LoaderHost& host :
       loader_hosts(launch.hosts, launch.allocation.others, launch.size, request.count))
    start(request, launch, host);
}

void LoaderTeam::start(const LoaderRequest& request, const LaunchRequest& launch,
                       const LoaderHost& host) {
  LaunchRequest with_token = launch;
  with_token.extra.emplace_back(kLoaderTokenVariable, token_);
  LaunchPlan plan = plan_loader(host, with_token);
  const bool is_one_host = is_local_job(launch) && host.component == 0;
  std::vector<std::string> words = {own_directory() + "/kolo-loader"};
  if (is_one_host) words.emplace_back("--one-host");
  words.insert(
      words.end(),
      {"--parent", name_of(parent_on(host, launch)), "--number", std::to_string(loaders_.size()),
       "--count", std::to_string(request.count), "--ranks", std::to_string(launch.size), "--units",
       std::to_string(request.units), "--spool", request.spool, "--"});
  words.insert(words.end(), launch.program.begin(), launch.program.end());
  plan.command.insert(plan.command.end(), words.begin(), words.end());

  Pipe input = make_pipe();
  Pipe output = make_pipe();
  ChildSpec spec;
  spec.command = plan.command;
  spec.set = plan.set;
  spec.unset = plan.unset;
  spec.standard_input = input.read.get();
  spec.standard_output = output.write.get();
  spec.own_group = true;  // Ctrl-C ends the job first
  spec.death_signal = SIGTERM;
  Loader loader;
  if (is_one_host) {
    loader.host = "127.0.0.1";
  } else {
    loader.host = host.name == "localhost" ? launch.own_host : host.name;
  }
  loader.parent = parent_on(host, launch);
  loader.pid = spawn(spec);
  loader.input = std::move(input.write);
  loader.output = std::move(output.read);
  loaders_.push_back(std::move(loader));
}

LoaderTeam::~LoaderTeam() {
  for (Loader& loader : loaders_) {
    loader.input.reset();
    loader.output.reset();
    // Open MPI 5 does not pass on the end of input. srun does, and a signal makes it complain.
    if (loader.parent != LoaderParent::kSrun && !has_ended(loader.pid)) ::kill(loader.pid, SIGTERM);
  }
  wait_for_ends();
  bool waits_for_srun = false;
  for (const Loader& loader : loaders_) {
    if (has_ended(loader.pid)) continue;
    // srun ends its step, which would otherwise go on.
    const bool is_srun = loader.parent == LoaderParent::kSrun;
    ::kill(loader.pid, is_srun ? SIGTERM : SIGKILL);
    waits_for_srun = waits_for_srun || is_srun;
  }
  if (waits_for_srun) wait_for_ends();
  for (const Loader& loader : loaders_) {
    if (has_ended(loader.pid)) continue;
    ::kill(loader.pid, SIGKILL);
    while (::waitpid(loader.pid, nullptr, 0) == -1 && errno == EINTR) {
    }
  }
}

void LoaderTeam::wait_for_ends() const {
  const Clock::time_point deadline = Clock::now() + seconds(kEndSeconds);
  for (const Loader& loader : loaders_) {
    if (!ends_before(loader.pid, deadline)) return;
  }
}

// Handles "kolo-loader address PORT MACHINE NAME" and "kolo-loader ready". Other lines are a
// launcher's.
void LoaderTeam::on_line(Loader& loader, const std::string& line) {
  const std::string mark = "kolo-loader ";
  const std::size_t begin = line.find(mark);  // launchers may print text before it
  if (begin == std::string::npos) return;
  std::istringstream words(line.substr(begin + mark.size()));
  std::string what;
  words >> what;
  std::string port;
  std::string machine;
  std::string name;
  if (what == "ready" && !loader.address.empty()) {
    loader.is_ready = true;
  } else if (what == "address" && words >> port >> machine >> name) {
    loader.address = loader.host + ":" + port + "," + machine + "," + name;
  }
}

void LoaderTeam::read(Loader& loader) {
  const auto sink = [&](std::string_view text, LineEnd) { on_line(loader, std::string(text)); };
  if (const std::optional<std::string> bytes = read_some(loader.output.get())) {
    loader.lines.feed(*bytes, sink);
    return;
  }
  const auto number = &loader - loaders_.data();
  const std::string name = "loader " + std::to_string(number) + " on host " + loader.host;
  if (loader.parent != LoaderParent::kKoloRun && loader.address.empty())
    throw LoaderNotStarted(name + " was not started; what its launcher said is above");
  throw std::runtime_error(name +
                           " has ended before its samples were prepared; what it said is above");
}

std::string LoaderTeam::missing() const {
  std::string names;
  for (std::size_t i = 0; i < loaders_.size(); ++i) {
    if (loaders_[i].is_ready) continue;
    names += (names.empty() ? "" : ", ") + std::to_string(i) + " on host " + loaders_[i].host;
  }
  return names;
}

std::optional<int> LoaderTeam::stopped_by(SignalQueue& signals,
                                          std::optional<Clock::time_point> deadline) const {
  const std::optional<ReceivedSignal> signal = signals.next();
  if (signal && signal->number != SIGUSR2) {  // SIGUSR2 asks the ranks for a dump
    std::cerr << "kolo run: received " << signal_name(signal->number)
              << " before the ranks were started; the job was ended\n";
    return 128 + signal->number;
  }
  if (!deadline || Clock::now() < *deadline) return std::nullopt;
  std::cerr << "kolo run: the time limit of --timeout has passed while loader processes prepared "
               "their samples: "
            << missing() << "; the job was ended\n";
  return kTimeoutExitCode;
}

std::optional<int> LoaderTeam::wait_until_ready(const LoaderWait& wait) {
  SignalQueue signals(signals_to_take());
  Clock::time_point report_at = Clock::now() + seconds(kReportSeconds);
  for (;;) {
    std::vector<pollfd> polled = {{signals.fd(), POLLIN, 0},
                                  {wait.leader != nullptr ? wait.leader->fd() : -1, POLLIN, 0}};
    const std::size_t others = polled.size();
    std::vector<Loader*> waiting;
    for (Loader& loader : loaders_) {
      if (loader.is_ready) continue;
      polled.push_back({loader.output.get(), POLLIN, 0});
      waiting.push_back(&loader);
    }
    if (waiting.empty()) return std::nullopt;
    const int ready = ::poll(polled.data(), polled.size(), kPollMilliseconds);
    if (ready == -1 && errno != EINTR) check(-1, "poll");
    if (const std::optional<int> code = stopped_by(signals, wait.deadline)) return code;
    if (ready > 0 && wait.leader != nullptr && polled[1].revents != 0) wait.leader->greet();
    for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) {
      if (polled[others + i].revents != 0) read(*waiting[i]);
    }
    if (Clock::now() >= report_at) {
      std::cerr << "kolo run: waiting for loader processes to prepare their samples: " << missing()
                << "\n";
      report_at += seconds(kReportSeconds);
    }
  }
}

Variables LoaderTeam::variables() const {
  std::string addresses;
  for (const Loader& loader : loaders_)
    addresses += (addresses.empty() ? "" : " ") + loader.address;
  return {{kLoadersVariable, addresses}, {kLoaderTokenVariable, token_}};
}

}  // namespace kolo::cli
