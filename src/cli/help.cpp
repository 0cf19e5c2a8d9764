// `kolo help`, `kolo help config|horovod [--markdown]`, `kolo --version`.
#include <iostream>

#include "cli/commands.hpp"
#include "cli/horovod.hpp"
#include "cli/usage_error.hpp"
#include "core/config.hpp"

#ifndef KOLO_VERSION
#define KOLO_VERSION "unknown"
#endif

namespace kolo::cli {
namespace {

constexpr const char* kUsage =
    "Usage: kolo COMMAND [options]\n\n"
    "Distributed training for LibTorch programs in C++, over MPI.\n\n"
    "Commands:\n"
    "  run         start a program on several ranks (kolorun is the same)\n"
    "  doctor      what was built in, what this machine has, and what is wrong with it\n"
    "  slurm       write or submit a batch script, checked against the cluster\n"
    "  bench       measure collectives against plain MPI\n"
    "  checkpoint  list, show, verify, compare and convert checkpoints\n"
    "  trace       merge the timelines of all ranks; tell why a job hangs\n"
    "  dump        ask the ranks of a running job what they did last\n"
    "  help        this; 'kolo help config' lists all settings of the environment,\n"
    "              'kolo help horovod' says what Horovod's calls, options and variables are "
    "here\n\n"
    "'kolo COMMAND --help' explains a command; 'kolo --version' shows the version.\n";

void show_settings() {
  std::cout << "Environment variables that kolo reads; each begins with its default.\n\n";
  for (const Setting& setting : settings()) {
    std::cout << setting.name << " = " << setting.default_value << "\n    " << setting.help
              << "\n    " << setting.type << ", " << setting.range;
    if (!setting.horovod_name.empty()) std::cout << "; or " << setting.horovod_name;
    std::cout << "\n";
  }
}

}  // namespace

void show_usage() {
  std::cout << kUsage;
}

void show_version() {
  std::cout << "kolo " KOLO_VERSION "\n";
}

int help_command(const Arguments& arguments) {
  if (arguments.empty()) {
    show_usage();
  } else if (arguments == Arguments{"config"}) {
    show_settings();
  } else if (arguments == Arguments{"config", "--markdown"}) {
    std::cout << configuration_page();
  } else if (arguments == Arguments{"horovod"}) {
    std::cout << horovod_text();
  } else if (arguments == Arguments{"horovod", "--markdown"}) {
    std::cout << horovod_page();
  } else if (arguments.size() == 1 && arguments[0] == "run") {
    return run_command({"--help"});
  } else if (arguments.size() == 1 && arguments[0] == "doctor") {
    return doctor_command({"--help"});
  } else if (arguments.size() == 1 && arguments[0] == "bench") {
    return bench_command({"--help"});
  } else if (arguments.size() == 1 && arguments[0] == "checkpoint") {
    return checkpoint_command({"--help"});
  } else if (arguments.size() == 1 && arguments[0] == "trace") {
    return trace_command({"--help"});
  } else if (arguments.size() == 1 && arguments[0] == "slurm") {
    return slurm_command({"--help"});
  } else if (arguments.size() == 1 && arguments[0] == "dump") {
    return dump_command({"--help"});
  } else {
    throw UsageError("no help on '" + arguments.back() +
                     "'; topics: run, doctor, slurm, bench, checkpoint, trace, dump, config "
                     "[--markdown], horovod "
                     "[--markdown]");
  }
  return 0;
}

}  // namespace kolo::cli
