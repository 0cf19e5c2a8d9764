#include "benchmarks/mpi_job.hpp"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "benchmarks/connection.hpp"
#include "benchmarks/contenders.hpp"
#include "benchmarks/machine.hpp"
#include "cli/process/system.hpp"

namespace kolo::bench {
namespace {

std::string start(Group& group) {
  const std::vector<int> nodes = group.nodes();
  if (std::count(nodes.begin(), nodes.end(), 0) != group.size())
    return "failed: its ranks are not on one host";
  std::string answer = "started MPI";
  for (const std::string& process : group.gather(std::to_string(::getpid())))
    answer += " " + process;
  return answer + " ; " + describe_placement(group.gather(bound_cores()), 1);
}

std::string run(Group& group, Contender* contender, int round, int calls) {
  if (contender == nullptr) return "failed: there is no work";
  std::ostringstream answer;
  answer.precision(17);
  std::string problem;
  const Pattern pattern(group.rank(), group.size(), round, calls);
  try {
    answer << "ran " << take_sample(group, *contender, pattern).microseconds * calls;
  } catch (const RunFailed& failed) {  // on every rank; some of them know why
    problem = failed.what();
    answer.str("failed");
  }
  std::string text = answer.str();
  for (const std::string& of_one : group.gather(problem))
    text += of_one.empty() ? "" : ": " + of_one;
  return text;
}

}  // namespace

int mpi_job(const std::vector<std::string>& words) {
  if (words.size() != 1) return 2;
  const MpiRuntime runtime;
  Group group;
  const auto connection = group.rank() == 0 ? std::make_unique<Connection>(words[0]) : nullptr;
  std::unique_ptr<Contender> contender;
  for (;;) {
    std::istringstream line(
        group.sleep_until_told(connection != nullptr ? connection->read_line() : ""));
    std::string word;
    std::string answer = "failed: not understood";
    line >> word;
    if (word == "start") answer = start(group);
    if (word == "end") answer = "ended";
    if (word == "run") {
      int round = 0;
      int calls = 1;
      line >> round >> calls;
      answer = run(group, contender.get(), round, calls);
    }
    if (word == "work") {
      std::int64_t elements = 0;
      line >> word >> elements;
      contender = mpi_one_by_one(group, {{"tensor", {elements}}});
      answer = "ready";
    }
    if (connection != nullptr) connection->answer(answer);
    if (word == "end") return 0;
  }
}

std::string mpi_job_allreduce(std::size_t elements) {
  return "allreduce " + std::to_string(elements);
}

std::vector<std::string> tuned_malloc() {
  return {"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=4294967296", "MALLOC_TOP_PAD_=67108864"};
}

std::unique_ptr<Job> start_mpi_job(Group& group) {
  Job::Spec spec;
  spec.name = "mpi-tuned-malloc";
  spec.settings = tuned_malloc();
  spec.program = {cli::own_directory() + "/kolo-bench", kMpiJob};
  return std::make_unique<Job>(group, spec);
}

}  // namespace kolo::bench
