// Trains a DCGAN on handwritten digits, on all ranks of a job: two models, two optimizers, one
// loop.
//   kolo run -np 2 build/release/bin/dcgan --images runs/dcgan
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <boost/program_options.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string>

#include "models.hpp"

namespace {

namespace po = boost::program_options;

struct Options {
  std::string data = KOLO_DEFAULT_DATA;
  std::string device = "cpu";
  std::string images;  // a folder for TensorBoard
  std::int64_t epochs = 8;
  std::int64_t batch_size = 32;  // of each rank
  double lr = 5e-4;
  bool sync_batchnorm = false;
  std::uint64_t seed = 1;
};

using Adam = kolo::DistributedOptimizer<torch::optim::Adam>;

// Are these logits those of digits, or of images that were made?
torch::Tensor loss_of(const torch::Tensor& logits, bool are_digits) {
  return torch::binary_cross_entropy_with_logits(
      logits, are_digits ? torch::ones_like(logits) : torch::zeros_like(logits));
}

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options),
        device_(options.device == "cpu"
                    ? torch::Device(torch::kCPU)
                    : torch::Device(torch::kCUDA,
                                    static_cast<torch::DeviceIndex>(kolo::local_device()))),
        generator_(prepared(dcgan::make_generator)),
        discriminator_(prepared(dcgan::make_discriminator)),
        // A name each: the parameters of both are called "0.weight" and so on.
        generator_optimizer_(generator_, adam(),
                             kolo::DistributedOptimizerOptions().name("generator")),
        discriminator_optimizer_(discriminator_, adam(),
                                 kolo::DistributedOptimizerOptions().name("discriminator")) {
    torch::manual_seed(options.seed + 1);
    examples_ = noise(32);  // the same on all ranks and after each epoch
    kolo::manual_seed_per_rank(options.seed);
  }

  // Losses of discriminator and generator.
  torch::Tensor step(const torch::Tensor& digits) {
    discriminator_optimizer_.zero_grad();
    const torch::Tensor made = generator_->forward(noise(digits.size(0)));
    torch::Tensor seen = loss_of(discriminator_->forward(digits.to(device_)), true);
    seen.backward();  // gives the ranks' average gradients,
    torch::Tensor found = loss_of(discriminator_->forward(made.detach()), false);
    found.backward();  // to which this adds its own
    discriminator_optimizer_.step();

    generator_optimizer_.zero_grad();
    torch::Tensor deceived;
    {
      // The generator's gradients pass through the discriminator, whose own are not needed.
      const auto no_sync = discriminator_optimizer_.no_sync();
      deceived = loss_of(discriminator_->forward(made), true);
      deceived.backward();
    }
    generator_optimizer_.step();
    return torch::stack({seen.detach() + found.detach(), deceived.detach()}).cpu();
  }

  // Images of the same noise in each call: [32, 1, 28, 28], from 0 to 1.
  torch::Tensor images() {
    const torch::NoGradGuard no_grad;
    generator_->eval();
    torch::Tensor images = generator_->forward(examples_).cpu() / 2 + 0.5;
    generator_->train();
    return images;
  }

  // Throws unless all ranks have the same parameters. Running statistics are each rank's own, but
  // for SyncBatchNorm.
  void check() const {
    for (const torch::nn::Sequential& module : {generator_, discriminator_}) {
      kolo::check_in_sync("the parameters",
                          torch::nn::utils::parameters_to_vector(module->parameters()).detach());
      if (options_.sync_batchnorm) kolo::check_in_sync(module);
    }
  }

 private:
  torch::optim::AdamOptions adam() const {
    return torch::optim::AdamOptions(options_.lr).betas({0.5, 0.999});
  }

  torch::nn::Sequential prepared(torch::nn::Sequential (*make)()) {
    torch::manual_seed(options_.seed);
    torch::nn::Sequential module = make();
    dcgan::initialize(*module);
    module->to(device_);
    if (options_.sync_batchnorm) kolo::convert_sync_batchnorm(module);
    kolo::broadcast_parameters(module);
    return module;
  }

  torch::Tensor noise(std::int64_t count) {
    return torch::randn({count, dcgan::kNoise}).to(device_);
  }

  const Options& options_;
  const torch::Device device_;
  torch::nn::Sequential generator_;
  torch::nn::Sequential discriminator_;
  Adam generator_optimizer_;
  Adam discriminator_optimizer_;
  torch::Tensor examples_;
};

// Four rows of eight images: [1, 112, 224].
torch::Tensor in_a_grid(const torch::Tensor& images) {
  return images.reshape({4, 8, 28, 28}).permute({0, 2, 1, 3}).reshape({1, 112, 224});
}

void train(const Options& options) {
  kolo::data::MNIST digits(options.data);
  kolo::DistributedSampler sampler(*digits.size(),
                                   {kolo::size(), kolo::rank(), true, options.seed});
  Training training(options);
  std::optional<kolo::SummaryWriter> writer;
  if (!options.images.empty()) writer.emplace(options.images);
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    sampler.set_epoch(static_cast<std::uint64_t>(epoch));
    const auto loader =
        torch::data::make_data_loader(digits.map(torch::data::transforms::Normalize<>(0.5, 0.5))
                                          .map(torch::data::transforms::Stack<>()),
                                      sampler, static_cast<std::size_t>(options.batch_size));
    torch::Tensor losses = torch::zeros({2});
    std::int64_t steps = 0;
    for (const auto& batch : *loader) {
      losses += training.step(batch.data);
      ++steps;
    }
    losses = kolo::average(losses / static_cast<double>(steps));
    const torch::Tensor images = training.images();
    if (writer) writer->add_image("generated", in_a_grid(images), epoch);
    if (kolo::rank() == 0) {
      std::printf("Epoch %ld: discriminator %.3f, generator %.3f, ink %.3f (digits %.3f)\n",
                  static_cast<long>(epoch), losses[0].item<double>(), losses[1].item<double>(),
                  images.mean().item<double>(), digits.images().mean().item<double>());
      std::fflush(stdout);
    }
  }
  training.check();
}

// Whether there is something to do.
bool parse(int argc, char** argv, Options& o) {
  po::options_description all("dcgan: two networks learn to make handwritten digits");
  auto add = all.add_options();
  add("help", "show this and end");
  add("data", po::value(&o.data)->default_value(o.data), "folder with the four IDX files of MNIST");
  add("device", po::value(&o.device)->default_value(o.device), "cpu, or cuda: this rank's GPU");
  add("images", po::value(&o.images), "folder for the images, which TensorBoard shows");
  add("epochs", po::value(&o.epochs)->default_value(o.epochs), "passes over the digits");
  add("batch-size", po::value(&o.batch_size)->default_value(o.batch_size),
      "digits a rank and step");
  add("lr", po::value(&o.lr)->default_value(o.lr), "learning rate of Adam");
  add("sync-batchnorm", po::bool_switch(&o.sync_batchnorm),
      "BatchNorm over the batches of all ranks");
  add("seed", po::value(&o.seed)->default_value(o.seed), "of weights, noise and shuffling");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::cout << all;
    return false;
  }
  po::notify(values);
  if (o.device != "cpu" && o.device != "cuda")
    throw po::error("--device " + o.device + ": it is cpu or cuda");
  if (o.epochs < 1 || o.batch_size < 2)
    throw po::error("--epochs must be at least 1, and --batch-size 2");
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (!parse(argc, argv, options)) return 0;
    kolo::init();
    train(options);
    kolo::shutdown();
    return 0;
  } catch (const po::error& error) {
    std::cerr << "dcgan: " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dcgan: " << error.what() << "\n";
    return 1;
  }
}
