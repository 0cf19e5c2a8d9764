// The contenders in processes of their own: MPI with a tuned malloc, and with --python what that
// Python has, torch.distributed over gloo and Horovod. What cannot be had is left out, with a note;
// a Python without torch is an error where gloo is wanted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/contenders.hpp"
#include "benchmarks/exchange.hpp"
#include "benchmarks/gloo.hpp"
#include "benchmarks/horovod.hpp"
#include "benchmarks/mpi_job.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/publish.hpp"
#include "benchmarks/tensors.hpp"

namespace kolo::bench {

// All members are collective and throw RunFailed. Contenders of an earlier work are of no use once
// those of the next have been added.
class Rivals {
 public:
  // All outlive this.
  Rivals(Group& group, const Options& options, const Publish& publish)
      : group_(group), options_(options), publish_(publish) {}

  // --- who takes part ---
  // shared_elements: see Gloo.
  void start_gloo(std::size_t shared_elements);
  void start_horovod();
  void start_tuned_mpi();

  // --- in what; those who were not started are left out ---
  void add_operation(Contenders& contenders, const Exchange& exchange);
  void add_allreduce(Contenders& contenders, const Parameter& tensor, Memory memory);
  void add_reduction(Contenders& contenders, const std::vector<Parameter>& parameters, Order order,
                     Names names);
  void add_backward(Contenders& contenders, const std::vector<Parameter>& parameters);
  void add_checkpoint(Contenders& contenders, const std::vector<Parameter>& parameters,
                      CheckpointWork work, const std::string& folder);

 private:
  bool on_one_host(const char* who) const;

  Group& group_;
  const Options& options_;
  const Publish& publish_;
  std::unique_ptr<Gloo> gloo_;
  std::unique_ptr<Job> tuned_mpi_;
  std::vector<std::unique_ptr<Job>> horovods_;
};

}  // namespace kolo::bench
