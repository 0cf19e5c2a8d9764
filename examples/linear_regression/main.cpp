// Linear regression in one process or in many, by one switch.
//   build/release/bin/linear_regression            a rank for each GPU, or for each NUMA node
//   build/release/bin/linear_regression --np 2     two ranks
//   sbatch, mpirun, srun, kolo run ...             their ranks
// The last argument is the way in which it trains: factory (the default), datasets, or alone.
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

namespace {

// 10,000 random samples of 10 features, and what a linear function makes of them.
kolo::data::Dataset make_samples(std::uint64_t seed, std::int64_t count) {
  torch::manual_seed(seed);
  const torch::Tensor samples = torch::rand({count, 10});
  const torch::Tensor weights = torch::linspace(-1, 1, 10).unsqueeze(1);
  return {samples, samples.matmul(weights) + 0.5};
}

kolo::Datasets make_datasets() {
  return {make_samples(1, 10000), make_samples(2, 1000)};
}

void train(const std::string& way) {
  if (way != "factory" && way != "datasets" && way != "alone")
    throw std::invalid_argument(way + ": it is factory, datasets or alone");
  torch::manual_seed(1);
  torch::nn::Linear model(10, 1);
  kolo::Trainer trainer(model, torch::nn::MSELoss(),
                        kolo::TrainerOptions()
                            .epochs(8)
                            .batch_size(32)
                            .distributed(way != "alone")  // the flag
                            .log_directory("runs/linear_regression"));
  trainer.optimizer<torch::optim::Adam>(torch::optim::AdamOptions(0.02));
  trainer.schedule(kolo::optim::MultiStepLR({3, 6}, 0.1));
  if (way == "factory") {
    trainer.train(make_datasets);  // called once in each rank: only there are the samples made
  } else {
    const kolo::Datasets datasets = make_datasets();
    trainer.train(datasets.train, datasets.valid);  // which the trainer shares and batches
  }
  if (trainer.is_root()) std::printf("bias: %.2f\n", model->bias.item<double>());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::string(argv[1]) == "alone") {
      train("alone");  // one process, without kolo
      return 0;
    }
    return kolo::launch(argc, argv, [&] { train(argc == 2 ? argv[1] : "factory"); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "linear_regression: %s\n", error.what());
    return 1;
  }
}
