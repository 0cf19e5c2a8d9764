// How fast all ranks of a job train ResNet-50, on random images.
//   kolo run -np 2 build/release/bin/resnet50_synthetic --batch-size 8
#include <ATen/autocast_mode.h>
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "net.hpp"

namespace {

namespace po = boost::program_options;

struct Options {
  std::string device = "cpu";
  std::string dtype = "float32";
  std::int64_t batch_size = 32;  // of each rank
  std::int64_t image_size = 224;
  std::int64_t warm_up = 3;      // steps
  std::int64_t iterations = 10;  // each gives a figure
  std::int64_t steps = 5;        // of an iteration
  bool plain = false;
};

// Convolutions and products compute in bfloat16; weights and gradients stay float32.
class Bfloat16 {
 public:
  Bfloat16(bool wanted, torch::Device device) : wanted_(wanted), type_(device.type()) {
    if (!wanted_) return;
    at::autocast::set_autocast_enabled(type_, true);
    at::autocast::set_autocast_dtype(type_, torch::kBFloat16);
  }
  ~Bfloat16() {
    if (!wanted_) return;
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, false);
  }
  Bfloat16(const Bfloat16&) = delete;
  Bfloat16& operator=(const Bfloat16&) = delete;

 private:
  const bool wanted_;
  const torch::DeviceType type_;
};

torch::Device device_named(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(kolo::local_device())};
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Options& options,
                                                        const resnet50::Net& net) {
  const torch::optim::SGDOptions sgd = torch::optim::SGDOptions(0.01).momentum(0.9);
  if (options.plain) return std::make_unique<torch::optim::SGD>(net->parameters(), sgd);
  return std::make_unique<kolo::DistributedOptimizer<torch::optim::SGD>>(net->parameters(), sgd);
}

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options), device_(device_named(options.device)) {
    torch::manual_seed(1);
    net_ = resnet50::Net();
    net_->to(device_);
    if (!options.plain) kolo::broadcast_parameters(*net_);
    optimizer_ = make_optimizer(options, net_);
    torch::manual_seed(2 + kolo::rank());
    images_ = torch::randn({options.batch_size, 3, options.image_size, options.image_size})
                  .to(device_)
                  .contiguous(torch::MemoryFormat::ChannelsLast);
    labels_ = torch::randint(1000, {options.batch_size}, torch::kLong).to(device_);
  }

  void step() {
    optimizer_->zero_grad();
    {
      const Bfloat16 here(options_.dtype == "bfloat16", device_);
      loss_ = torch::cross_entropy_loss(net_(images_), labels_);
    }
    loss_.backward();
    optimizer_->step();
  }

  // Images a second. A GPU has done all when its loss is here.
  double measure() {
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < options_.steps; ++i) step();
    const double loss = loss_.item<double>();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (!std::isfinite(loss)) throw std::runtime_error("the loss is not finite");
    return static_cast<double>(options_.steps * options_.batch_size) / seconds.count();
  }

  std::int64_t parameters() const {
    std::int64_t count = 0;
    for (const torch::Tensor& parameter : net_->parameters()) count += parameter.numel();
    return count;
  }

  // Ranks that have trained together have the same weights. Collective.
  void check_weights() const {
    if (options_.plain) return;
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& parameter : net_->parameters())
      all.push_back(parameter.detach().flatten());
    const torch::Tensor mine = torch::cat(all);
    const auto reduced = [&](const char* name, kolo::ReduceOp op) {
      return kolo::allreduce(mine, kolo::AllreduceOptions(name).op(op));
    };
    if (!reduced("largest", kolo::ReduceOp::Max).equal(reduced("least", kolo::ReduceOp::Min))) {
      throw std::runtime_error(
          "ranks have different weights after training: this is a bug of kolo");
    }
  }

 private:
  const Options options_;
  const torch::Device device_;
  resnet50::Net net_{nullptr};
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  torch::Tensor images_;
  torch::Tensor labels_;
  torch::Tensor loss_;
};

double median(std::vector<double> rates) {
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

// Prints the mean over the ranks of their own rates, and the standard deviation. Collective.
void compare_ranks(double own_rate) {
  const std::vector<double> rates = kolo::allgather_object(own_rate);
  const auto count = static_cast<double>(rates.size());
  const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / count;
  double squares = 0;
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  if (kolo::rank() == 0) {
    std::printf("Images/s of a rank: mean %.1f, deviation %.1f\n", mean,
                std::sqrt(squares / count));
  }
}

void run(const Options& options) {
  Training training(options);
  const bool root = kolo::rank() == 0;
  if (root) {
    std::printf(
        "ResNet-50 with %ld parameters, %s on %s, %ld images a rank and step, %ld ranks%s\n",
        static_cast<long>(training.parameters()), options.dtype.c_str(), options.device.c_str(),
        static_cast<long>(options.batch_size), static_cast<long>(kolo::size()),
        options.plain ? ", each for itself" : "");
    std::fflush(stdout);
  }
  for (std::int64_t i = 0; i < options.warm_up; ++i) training.step();
  std::vector<double> own_rates;
  std::vector<double> rates;
  for (std::int64_t i = 0; i < options.iterations; ++i) {
    kolo::barrier();
    const double rate = training.measure();
    own_rates.push_back(rate);
    rates.push_back(kolo::allreduce(torch::tensor(rate, torch::kDouble),
                                    kolo::AllreduceOptions("rate").op(kolo::ReduceOp::Sum))
                        .item<double>());
    if (!root) continue;
    std::printf("Iteration %ld: %.1f images/s\n", static_cast<long>(i), rates.back());
    std::fflush(stdout);
  }
  training.check_weights();
  if (root) {
    const auto [slowest, fastest] = std::minmax_element(rates.begin(), rates.end());
    std::printf("Images/s of all ranks: median %.1f (%.1f to %.1f)\n", median(rates), *slowest,
                *fastest);
  }
  compare_ranks(median(own_rates));
}

// Whether there is something to do.
bool parse(int argc, char** argv, Options& o) {
  po::options_description all(
      "resnet50_synthetic: how fast all ranks of the job train ResNet-50, on random images");
  auto add = all.add_options();
  add("help", "show this and end");
  add("device", po::value(&o.device)->default_value(o.device), "cpu, or cuda: this rank's GPU");
  add("dtype", po::value(&o.dtype)->default_value(o.dtype),
      "float32, or bfloat16 for convolutions and products (autocast)");
  add("batch-size", po::value(&o.batch_size)->default_value(o.batch_size),
      "images a rank and step");
  add("image-size", po::value(&o.image_size)->default_value(o.image_size), "height and width");
  add("warm-up", po::value(&o.warm_up)->default_value(o.warm_up), "steps before the first figure");
  add("iterations", po::value(&o.iterations)->default_value(o.iterations), "figures");
  add("steps", po::value(&o.steps)->default_value(o.steps), "steps for a figure");
  add("plain", po::bool_switch(&o.plain), "ranks train each for itself, without kolo's optimizer");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::cout << all;
    return false;
  }
  po::notify(values);
  if (o.device != "cpu" && o.device != "cuda")
    throw po::error("--device " + o.device + ": it is cpu or cuda");
  if (o.dtype != "float32" && o.dtype != "bfloat16")
    throw po::error("--dtype " + o.dtype + ": it is float32 or bfloat16");
  if (o.batch_size < 1 || o.iterations < 1 || o.steps < 1 || o.warm_up < 0)
    throw po::error("--batch-size, --iterations and --steps must be at least 1, --warm-up 0");
  // The last layer has 1/32 of it; batch norm needs more than one value a channel.
  if (o.image_size < 33) throw po::error("--image-size must be at least 33");
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (!parse(argc, argv, options)) return 0;
    kolo::init();
    run(options);
    kolo::shutdown();
    return 0;
  } catch (const po::error& error) {
    std::cerr << "resnet50_synthetic: " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "resnet50_synthetic: " << error.what() << "\n";
    return 1;
  }
}
