#include "benchmarks/job.hpp"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <system_error>
#include <utility>

#include "cli/process/environment.hpp"
#include "cli/process/system.hpp"

namespace kolo::bench {
namespace {

// What a launcher tells the processes that it starts; not what a user tells a launcher.
bool is_from_launcher(const std::string& name) {
  const auto begins_with = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
  if (begins_with("OMPI_ALLOW_RUN_AS_ROOT")) return false;
  for (const char* own : {"OMPI_MCA_initial_wdir", "OMPI_MCA_num_procs", "OMPI_MCA_cpu_type"}) {
    if (name == own) return true;
  }
  for (const char* settings : {"OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_"}) {
    if (begins_with(settings)) return false;
  }
  return begins_with("OMPI_") || begins_with("PMIX_") || begins_with("PMI_") ||
         begins_with("PRTE_");
}

std::vector<std::string> command_of(const Job::Spec& spec, int ranks) {
  std::vector<std::string> command = {cli::own_directory() + "/kolo-bench",
                                      kLaunch,
                                      cli::own_directory() + "/kolo",
                                      "run",
                                      "--no-prefix",
                                      "-np",
                                      std::to_string(ranks)};
  if (!spec.bound) command.insert(command.end(), {"--bind-to", "none"});
  if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  command.insert(command.end(), spec.options.begin(), spec.options.end());
  for (const std::string& setting : spec.settings)
    command.insert(command.end(), {"--env", setting});
  command.insert(command.end(), spec.program.begin(), spec.program.end());
  return command;
}

}  // namespace

int launch(const std::vector<std::string>& words) {
  if (words.empty()) return 2;
  for (const auto& [name, value] : cli::system_variables()) {
    if (is_from_launcher(name)) ::unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  }
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  if (::sched_setaffinity(0, sizeof all, &all) != 0) std::cerr << "sched_setaffinity failed\n";
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  arguments.reserve(copies.size() + 1);
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  std::cerr << words[0] << " cannot be started: " << std::generic_category().message(errno) << "\n";
  return 1;
}

class JobContender final : public Contender {
 public:
  explicit JobContender(Job& job) : job_(job) {}

  std::string name() const override { return job_.name_; }
  std::string placement() const override { return job_.placement_; }
  void refresh(const Pattern& pattern) override { round_ = pattern.round(); }

  void run() override { repeat(1); }

  void repeat(int calls) override {
    try {
      std::istringstream text(
          job_.ask("run " + std::to_string(round_) + " " + std::to_string(calls), "ran"));
      if (job_.child_ != nullptr && !(text >> microseconds_))
        throw ContenderFailed("'run' was answered without a time");
    } catch (const ContenderFailed&) {
      throw;
    } catch (const std::exception& error) {
      throw ContenderFailed(error.what());
    }
  }

  std::optional<double> measured_microseconds() const override { return microseconds_; }
  std::string check(const Pattern& /*pattern*/) override { return ""; }  // the job has

 private:
  Job& job_;
  int round_ = 0;
  double microseconds_ = 0;  // on rank 0
};

Job::Job(Group& group, const Spec& spec) : group_(group), name_(spec.name) {
  together(group, [&] {
    if (group.rank() > 0) return;
    child_ = std::make_unique<Child>("the job of " + name_, command_of(spec, group.size()),
                                     spec.deadline_seconds, Talk::kConnection);
  });
  together(group, [&] {
    std::istringstream answer(ask("start", "started"));
    answer >> version_;
    for (pid_t process = 0; answer >> process && process > 1;) processes_.push_back(process);
    answer.clear();
    answer >> std::ws;
    std::getline(answer.ignore(1) >> std::ws, placement_);  // behind the semicolon
    if (child_ != nullptr && processes_.size() != static_cast<std::size_t>(group.size()))
      throw ChildError("the job of " + name_ + " did not name its processes");
    signal_all(SIGSTOP);
  });
}

Job::~Job() {
  if (child_ == nullptr) return;
  try {
    signal_all(SIGCONT);
    child_->ask("end", "ended");
    child_->wait_for_end();
  } catch (const std::exception& error) {
    std::cerr << "kolo-bench: " << error.what() << "\n";
  }
}

std::unique_ptr<Contender> Job::contender(const std::string& work) {
  together(group_, [&] { ask("work " + work, "ready"); });
  return std::make_unique<JobContender>(*this);
}

std::string Job::ask(const std::string& line, const std::string& word) {
  std::string answer;
  std::string problem;
  if (child_ != nullptr) {
    try {
      signal_all(SIGCONT);
      answer = child_->ask(line, word);
      signal_all(SIGSTOP);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  group_.sleep_until_all();
  if (!problem.empty()) throw ChildError(problem);
  return answer;
}

void Job::signal_all(int signal) const {
  for (const pid_t process : processes_) {
    if (::kill(process, signal) != 0 && errno != ESRCH)
      throw ChildError("kill: " + std::generic_category().message(errno));
  }
}

}  // namespace kolo::bench
