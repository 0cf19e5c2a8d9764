#include "benchmarks/rivals.hpp"

#include <ATen/Parallel.h>
#include <kolo/init.h>

#include <cstdlib>
#include <utility>

namespace kolo::bench {

void Rivals::start_gloo(std::size_t shared_elements) {
  if (options_.python.empty()) return;
  // kolo::init() has set it.
  const char* host = std::getenv("MASTER_ADDR");  // NOLINT(concurrency-mt-unsafe)
  gloo_ = std::make_unique<Gloo>(group_, options_.python, host == nullptr ? "localhost" : host,
                                 shared_elements, Gloo::kDeadlineSeconds, at::get_num_threads());
  publish_.library("torch " + gloo_->torch_version());
}

bool Rivals::on_one_host(const char* who) const {
  if (cross_size() == 1) return true;
  publish_.note(std::string(who) + " is measured on one host alone; left out");
  return false;
}

void Rivals::start_horovod() {
  if (options_.python.empty() || !on_one_host("horovod")) return;
  bool possible = false;
  const std::string why = why_no_horovod(group_, options_.python, possible);
  if (!possible) return publish_.note("horovod is left out: " + why);
  for (const WhileWaiting what : {WhileWaiting::kSpins, WhileWaiting::kYields})
    horovods_.push_back(bench::start_horovod(group_, options_.python, what, at::get_num_threads()));
  publish_.library(horovods_.front()->version());
}

void Rivals::start_tuned_mpi() {
  if (on_one_host("mpi-tuned-malloc")) tuned_mpi_ = start_mpi_job(group_);
}

void Rivals::add_operation(Contenders& contenders, const Exchange& exchange) {
  if (gloo_ == nullptr) return;
  Gloo::Offer offer = gloo_->offer(exchange);
  if (offer.contender) {
    contenders.push_back(std::move(offer.contender));
  } else {
    publish_.note("gloo has no " + name_of(exchange.operation) + ": " + offer.missing);
  }
}

void Rivals::add_allreduce(Contenders& contenders, const Parameter& tensor, Memory memory) {
  if (tuned_mpi_ != nullptr)
    contenders.push_back(tuned_mpi_->contender(mpi_job_allreduce(tensor.elements())));
  if (memory != Memory::kPrivate) return;
  add_operation(contenders, exchange_of(Operation::kAllreduce, tensor.elements(), group_.rank(),
                                        group_.size()));
  for (const auto& job : horovods_) contenders.push_back(job->contender(horovod_allreduce(tensor)));
}

void Rivals::add_reduction(Contenders& contenders, const std::vector<Parameter>& parameters,
                           Order order, Names names) {
  for (const auto& job : horovods_)
    contenders.push_back(job->contender(horovod_gradients(parameters, order, names)));
}

void Rivals::add_backward(Contenders& contenders, const std::vector<Parameter>& parameters) {
  if (gloo_ != nullptr) contenders.push_back(gloo_->data_parallel(parameters));
  for (const auto& job : horovods_)
    contenders.push_back(job->contender(horovod_backward(parameters)));
}

void Rivals::add_checkpoint(Contenders& contenders, const std::vector<Parameter>& parameters,
                            CheckpointWork work, const std::string& folder) {
  if (gloo_ != nullptr) contenders.push_back(gloo_->checkpoint(parameters, work, folder));
}

}  // namespace kolo::bench
