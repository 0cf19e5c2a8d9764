// What `kolo bench` runs on every rank. Exit codes: 0; 1 for a wrong result or a failure; 2 for a
// command line that cannot be meant.
#include <kolo/init.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "benchmarks/benchmarks.hpp"
#include "benchmarks/delivery.hpp"
#include "benchmarks/json_file.hpp"
#include "benchmarks/machine.hpp"
#include "benchmarks/mpi_job.hpp"
#include "benchmarks/train.hpp"
#include "benchmarks/tune.hpp"

namespace kolo::bench {
namespace {

// Before MPI runs, only the launcher's variables tell.
bool first_of_the_job() {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK", "SLURM_PROCID"}) {
    const char* rank = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no threads yet
    if (rank != nullptr) return std::string(rank) == "0";
  }
  return true;
}

std::vector<std::string> environment_settings() {
  std::vector<std::string> settings;
  for (char** variable = environ; *variable != nullptr; ++variable)
    settings.emplace_back(*variable);
  return settings;
}

Report empty_report(Group& group, const std::vector<std::string>& arguments,
                    std::string& placement) {
  const std::vector<std::string> cores = group.gather(bound_cores());
  Report report;
  report.benchmark = arguments.front();
  report.command = describe_command(environment_settings(), group.size(), arguments);
  report.date = date_now();
  report.machine = describe_this_machine(mpi_library_version());
  placement = describe_placement(cores, cross_size());
  return report;
}

std::string head(const Report& report, const std::string& placement) {
  return report.command + "\n" + report.machine + ", ranks " + placement + "\n\n" + table_head();
}

auto benchmark_of(const Options& options) {
  if (options.benchmark == "allocate") return bench_allocate;
  if (options.benchmark == "allreduce") return bench_allreduce;
  if (options.benchmark == "checkpoint") return bench_checkpoint;
  if (options.benchmark == "device") return bench_device;
  if (options.benchmark == "train") return bench_train;
  if (options.benchmark == "idle") return bench_idle;
  if (options.benchmark == "loading") return bench_loading;
  if (options.benchmark == "tune") return bench_tune;
  if (options.benchmark == "negotiate") return bench_negotiate;
  if (options.benchmark == "optimizer") return bench_optimizer;
  if (options.benchmark == "small") return bench_small;
  return options.benchmark == "gradients" ? bench_gradients : bench_operations;
}

void measure_and_report(Group& group, const Options& options,
                        const std::vector<std::string>& arguments) {
  std::string placement;
  Report report = empty_report(group, arguments, placement);
  const bool first = group.rank() == 0;
  Publish publish;
  publish.library = [&](const std::string& library) { report.machine += ", " + library; };
  publish.note = [&](const std::string& text) {
    if (first) std::cerr << "kolo-bench: " << text << "\n" << std::flush;
  };
  publish.rows = [&](const std::vector<Row>& rows) {
    if (first && report.rows.empty()) std::cout << head(report, placement);
    if (first) std::cout << table_lines(rows) << std::flush;
    for (Row row : rows) {
      if (row.placement.empty()) row.placement = placement;
      report.rows.push_back(std::move(row));
    }
  };
  publish.table = [&](const AllreduceTable& table) {
    if (!first) return;
    const std::string text =
        table_with_comments(table, {report.command, report.date + ", " + report.machine});
    if (options.output.empty()) std::cout << "\n" << text << std::flush;
    if (!options.output.empty()) replace_file(options.output, text);
  };
  benchmark_of(options)(group, options, publish);
  if (first && !options.json.empty()) replace_file(options.json, to_json(report));
}

// What went wrong on this rank is printed before any rank ends: a launcher ends the others then.
bool all_well(Group& group, const std::string& problem) {
  if (!problem.empty()) std::cerr << "kolo-bench: " << problem << "\n" << std::flush;
  double bad = problem.empty() ? 0 : 1;
  group.largest(&bad, 1);
  return bad == 0;
}

bool file_can_be_written(Group& group, const Options& options) {
  std::string problem;
  try {
    for (const std::string& path : {options.json, options.output}) {
      if (group.rank() == 0 && !path.empty()) check_writable(path);
    }
  } catch (const FileError& error) {
    problem = error.what();
  }
  return all_well(group, problem);
}

// What is thrown on this rank alone ends the job at once (see say_and_abort()): destructors would
// wait for the other ranks.
int run(const Options& options, const std::vector<std::string>& arguments) noexcept {
  Group group;
  if (!file_can_be_written(group, options)) return 1;
  try {
    measure_and_report(group, options, arguments);
  } catch (const RunFailed& failed) {
    all_well(group, failed.what());
    return 1;
  }
  return 0;
}

[[noreturn]] void say_and_abort() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    std::cerr << "kolo-bench: " << error.what() << "\n" << std::flush;
  } catch (...) {
    std::cerr << "kolo-bench: an unknown exception\n" << std::flush;
  }
  abort_job(1);
}

// The benchmarks' windows of shared memory need no network. Open MPI's component for UCX complains
// on standard error, on every rank, where it finds none that it knows.
void choose_windows() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no threads yet; MPI reads it when it starts
  if (::setenv("OMPI_MCA_osc", "^ucx", 0) != 0) std::perror("kolo-bench: setenv");
}

int start(const std::vector<std::string>& arguments) {
  choose_windows();
  if (!arguments.empty() && arguments.front() == kTrainAlone)
    return train_alone({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == kLaunch)
    return launch({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == kMpiJob)
    return mpi_job({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == kDeliveryJob)
    return delivery_job({arguments.begin() + 1, arguments.end()});
  const Options options = parse_options(arguments);
  if (options.help) {
    if (first_of_the_job()) std::cout << *options.help;
    return 0;
  }
  std::set_terminate(say_and_abort);
  try {
    init();
    const int code = run(options, arguments);
    shutdown();
    return code;
  } catch (const std::exception& error) {
    std::cerr << "kolo-bench: " << error.what() << "\n" << std::flush;
    abort_job(1);
  }
}

}  // namespace
}  // namespace kolo::bench

int main(int argc, char** argv) {
  try {
    return kolo::bench::start({argv + 1, argv + argc});
  } catch (const kolo::bench::UsageError& error) {
    // The first rank speaks for all, whose end must not end it before.
    if (!kolo::bench::first_of_the_job()) return 0;
    std::cerr << "kolo-bench: " << error.what() << "; see kolo-bench --help\n";
    return 2;
  }
}
