#include "cli/rank/placement.hpp"

#include <algorithm>

#include "cli/batch/slurm_notation.hpp"

namespace kolo::cli {
namespace {

std::optional<int> number(const Lookup& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  const std::optional<long> value = parse_integer(*text);
  if (!value || *value < 0 || *value > 100'000'000) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<int> first_of(std::optional<int> first, std::optional<int> second) {
  return first ? first : second;
}

// Slurm's own numbers. SLURM_STEP_NUM_TASKS exists only in a step of srun. A program in a batch
// script sees SLURM_PROCID=0 and SLURM_NTASKS as well, although it runs alone.
struct Slurm {
  std::optional<int> rank, size, local_rank, local_size;
};

Slurm read_slurm(const Lookup& environment) {
  Slurm slurm;
  slurm.size = number(environment, "SLURM_STEP_NUM_TASKS");
  if (!slurm.size) return {};
  slurm.rank = number(environment, "SLURM_PROCID");
  slurm.local_rank = number(environment, "SLURM_LOCALID");
  const std::optional<int> node = number(environment, "SLURM_NODEID");
  const std::optional<std::string> tasks = environment("SLURM_STEP_TASKS_PER_NODE");
  const std::vector<int> counts = slurm_counts(tasks.value_or(""));
  if (node && static_cast<std::size_t>(*node) < counts.size()) slurm.local_size = counts[*node];
  return slurm;
}

std::optional<Placement> make(std::optional<int> rank, std::optional<int> size,
                              std::optional<int> local_rank, std::optional<int> local_size) {
  if (!rank || !size || *rank >= *size) return std::nullopt;
  Placement placement{*rank, *size, -1, -1};
  if (*size == 1) {
    placement.local_rank = 0;
    placement.local_size = 1;
  } else if (local_rank && local_size && *local_rank < *local_size && *local_size <= *size) {
    placement.local_rank = *local_rank;
    placement.local_size = *local_size;
  }
  return placement;
}

}  // namespace

std::optional<Placement> placement_from(const Lookup& environment) {
  const auto get = [&](const char* name) { return number(environment, name); };
  const auto open_mpi = make(get("OMPI_COMM_WORLD_RANK"), get("OMPI_COMM_WORLD_SIZE"),
                             get("OMPI_COMM_WORLD_LOCAL_RANK"), get("OMPI_COMM_WORLD_LOCAL_SIZE"));
  if (open_mpi) return open_mpi;
  const Slurm slurm = read_slurm(environment);
  const auto mpich =
      make(get("PMI_RANK"), get("PMI_SIZE"), first_of(get("MPI_LOCALRANKID"), slurm.local_rank),
           first_of(get("MPI_LOCALNRANKS"), slurm.local_size));
  if (mpich) return mpich;
  // PMIx gives only the rank; the other numbers come from Slurm.
  return make(first_of(get("PMIX_RANK"), slurm.rank), slurm.size, slurm.local_rank,
              slurm.local_size);
}

int threads_per_rank(const ThreadChoice& choice, int local_size) {
  if (choice.requested > 0) return choice.requested;
  const int ranks = std::max(1, local_size);
  double threads = choice.cores_in_reach;
  const int share = choice.cores_of_node / ranks;
  if (choice.cores_of_node > 0) threads = std::min<double>(threads, share);
  if (choice.quota) threads = std::min(threads, *choice.quota / ranks);
  return std::max(1, static_cast<int>(threads));
}

Variables exported_variables(const Placement& placement, const Rendezvous& rendezvous, int threads,
                             const Lookup& environment) {
  Variables all = {{"RANK", std::to_string(placement.rank)},
                   {"WORLD_SIZE", std::to_string(placement.size)}};
  if (placement.local_size > 0) {
    all.emplace_back("LOCAL_RANK", std::to_string(placement.local_rank));
    all.emplace_back("LOCAL_WORLD_SIZE", std::to_string(placement.local_size));
  }
  if (!rendezvous.address.empty()) {
    all.emplace_back("MASTER_ADDR", rendezvous.address);
    all.emplace_back("MASTER_PORT", std::to_string(rendezvous.port));
  }
  // MKL follows OMP_NUM_THREADS unless its own variable is set.
  if (environment("OMP_NUM_THREADS").value_or("").empty()) {
    all.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
    if (!environment("MKL_NUM_THREADS"))
      all.emplace_back("MKL_NUM_THREADS", std::to_string(threads));
  }
  return all;
}

}  // namespace kolo::cli
