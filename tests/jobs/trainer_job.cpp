// A training by a Trainer, with checkpoints: trainer_job FOLDER [WHAT [RANK]].
//  - raise: rank RANK gets SIGTERM in step 5, once for a folder
//  - slow: after step 1 FOLDER/begun is there, and step 2 waits until a signal asks to stop
//  - throw: the first sample of rank RANK cannot be read
//  - callback: a callback of rank RANK throws in step 3
//  - nan: the weights of rank RANK become NaN after step 3
// Prints "trained: N steps, parameters HASH" after the last epoch; stopped before that, it exits
// with kolo::kRequeueExitCode. Each call of the function that makes the datasets adds a line to
// FOLDER/made. Each rank adds a line "EPOCH INDEX" to FOLDER/used-RANK for each sample that it
// trains with. kolo::launch() starts its ranks if nobody else does.
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct Job {
  std::string folder;
  std::string what;
  int rank = 0;

  bool is_here(const char* fault) const { return what == fault && kolo::rank() == rank; }
  std::string file(const char* name) const { return folder + "/" + name; }
};

class Faults : public kolo::Callback {
 public:
  explicit Faults(Job job) : job_(std::move(job)) {}

  void step_end(kolo::Trainer& trainer) override {
    const std::int64_t step = trainer.state().step;
    if (job_.is_here("raise") && step == 5 && !std::filesystem::exists(job_.file("raised"))) {
      std::ofstream(job_.file("raised")) << "in step 5\n";
      std::raise(SIGTERM);
    }
    if (job_.is_here("callback") && step == 3) throw std::runtime_error("the callback has failed");
    if (job_.is_here("nan") && step == 3) {
      const torch::NoGradGuard no_grad;
      for (const torch::Tensor& weight : trainer.module().parameters()) weight.fill_(NAN);
    }
    if (job_.what != "slow" || !trainer.is_root()) return;
    if (step == 1) std::ofstream(job_.file("begun")) << "step 1\n";
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (step == 2 && !kolo::stop_signal_caught() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

 private:
  const Job job_;
};

// Notes which samples a rank trains with.
class Usage : public kolo::Callback {
 public:
  explicit Usage(const std::string& file) : file_(file, std::ios::app) {}

  void epoch_begin(kolo::Trainer& trainer) override { epoch_ = trainer.state().epoch; }
  void use(const torch::Tensor& indices) {
    for (std::int64_t i = 0; i < indices.size(0); ++i)
      file_ << epoch_ << ' ' << indices[i].item<std::int64_t>() << '\n';
    file_.flush();
  }

 private:
  std::ofstream file_;
  std::int64_t epoch_ = 0;
};

// A target is the value to learn and the sample's index.
kolo::Datasets make_datasets(const Job& job) {
  std::ofstream(job.file("made"), std::ios::app) << "rank " + std::to_string(kolo::rank()) + "\n";
  const auto sample = [job](std::size_t index) -> kolo::data::Batch {
    if (job.is_here("throw")) throw std::runtime_error("the sample cannot be read");
    const torch::Tensor row = torch::arange(4).add(static_cast<std::int64_t>(index)).sin();
    return {row, torch::stack({row.sum(), torch::tensor(static_cast<float>(index))})};
  };
  return {{240, sample}, {}};
}

int train(const Job& job) {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                              torch::nn::Dropout(0.2), torch::nn::Linear(8, 1));
  kolo::init();
  const auto usage = std::make_shared<Usage>(job.file("used-") + std::to_string(kolo::rank()));
  const auto loss = [usage](const torch::Tensor& output, const torch::Tensor& target) {
    usage->use(target.select(1, 1));
    return torch::mse_loss(output, target.narrow(1, 0, 1));
  };
  kolo::Trainer trainer(model, loss,
                        kolo::TrainerOptions()
                            .epochs(3)
                            .batch_size(8)
                            .workers(2)
                            .sync_batchnorm(true)
                            .device("cpu")
                            .verbose(false));
  trainer.optimizer<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  trainer.schedule(kolo::optim::CosineAnnealingLR(60), kolo::Interval::Step);
  trainer.callback(usage);
  trainer.callback<Faults>(job);
  trainer.callback<kolo::Checkpoints>(job.file("checkpoints"));
  const kolo::TrainingState& state = trainer.train([&] { return make_datasets(job); });
  if (!state.is_over) return kolo::kRequeueExitCode;
  double sum = 0;
  for (const torch::Tensor& tensor : model->parameters()) sum += tensor.pow(2).sum().item<double>();
  kolo::check_in_sync(model);
  if (trainer.is_root())
    std::printf("trained: %d steps, parameters %a\n", static_cast<int>(state.step), sum);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return kolo::launch(argc, argv, [&] {
      Job job{argv[1], argc > 2 ? argv[2] : "", argc > 3 ? std::stoi(argv[3]) : 0};
      return train(job);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainer_job: %s\n", error.what());
    return 1;
  }
}
