// The subcommands. Each takes the words after its name and returns kolo's exit code; UsageError is
// shown by main().
#pragma once

#include <string>
#include <vector>

namespace kolo::cli {

using Arguments = std::vector<std::string>;

int run_command(const Arguments& arguments);
int doctor_command(const Arguments& arguments);
int bench_command(const Arguments& arguments);
int checkpoint_command(const Arguments& arguments);
int trace_command(const Arguments& arguments);
int slurm_command(const Arguments& arguments);
int dump_command(const Arguments& arguments);
int help_command(const Arguments& arguments);

void show_usage();
void show_version();

inline constexpr int kUsageExitCode = 2;

}  // namespace kolo::cli
