// Trains a small CNN on Fashion-MNIST on all ranks of a job, on CPUs or on GPUs by one switch.
//   kolo run -np 2 build/release/bin/fashion_mnist --device cpu
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

namespace {

namespace po = boost::program_options;

constexpr double kMean = 0.2860;
constexpr double kDeviation = 0.3530;

struct Options {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string device = "cpu";
  std::int64_t epochs = 5;
  std::int64_t batch_size = 64;  // of each rank
  double lr = 1e-3;
  std::uint64_t seed = 1;
};

// Images [N, 1, 28, 28] to log-probabilities [N, 10].
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc", fc);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return torch::log_softmax(fc(x.flatten(1)), 1);
  }

  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 16, 3)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(16, 32, 3)};
  torch::nn::Linear fc{800, 10};
};
TORCH_MODULE(Net);

torch::Device device_named(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(kolo::local_device())};
}

// How many of all images the net knows; each rank looks at its share. Collective.
double accuracy(Net& net, const kolo::data::MNIST& images, torch::Device device) {
  constexpr std::int64_t kAtOnce = 1000;
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(*images.size());
  const std::int64_t end = count * (kolo::rank() + 1) / kolo::size();
  torch::Tensor correct = torch::zeros({1}, torch::kDouble);
  for (std::int64_t at = count * kolo::rank() / kolo::size(); at < end; at += kAtOnce) {
    const std::int64_t to = std::min(end, at + kAtOnce);
    const torch::Tensor batch = (images.images().slice(0, at, to) - kMean) / kDeviation;
    const torch::Tensor labels = images.labels().slice(0, at, to);
    correct += net(batch.to(device)).argmax(1).cpu().eq(labels).sum();
  }
  kolo::allreduce_(correct, kolo::AllreduceOptions("accuracy").op(kolo::ReduceOp::Sum));
  return correct.item<double>() / static_cast<double>(count);
}

void train(const Options& options) {
  const torch::Device device = device_named(options.device);
  const kolo::data::MNIST test_set(options.data, kolo::data::MNIST::Mode::kTest);
  kolo::data::MNIST train_set(options.data);

  kolo::DistributedSampler::Options share;
  share.num_replicas = kolo::size();
  share.rank = kolo::rank();
  share.seed = options.seed;
  kolo::DistributedSampler sampler(*train_set.size(), share);

  torch::manual_seed(options.seed);
  Net net;
  net->to(device);
  kolo::broadcast_parameters(*net);
  kolo::DistributedOptimizer<torch::optim::Adam> optimizer(net->parameters(),
                                                           torch::optim::AdamOptions(options.lr));

  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    sampler.set_epoch(static_cast<std::uint64_t>(epoch));
    auto loader = torch::data::make_data_loader(
        train_set.map(torch::data::transforms::Normalize<>(kMean, kDeviation))
            .map(torch::data::transforms::Stack<>()),
        sampler, torch::data::DataLoaderOptions(static_cast<std::size_t>(options.batch_size)));
    torch::Tensor loss;
    for (const auto& batch : *loader) {
      optimizer.zero_grad();
      loss = torch::nll_loss(net(batch.data.to(device)), batch.target.to(device));
      loss.backward();
      optimizer.step();
    }
    const double known = accuracy(net, test_set, device);
    if (kolo::rank() == 0) {
      std::printf("Epoch %ld: loss %.4f, accuracy %.2f %%\n", static_cast<long>(epoch),
                  loss.item<double>(), 100 * known);
      std::fflush(stdout);
    }
  }
}

// Whether there is something to do.
bool parse(int argc, char** argv, Options& o) {
  po::options_description all("fashion_mnist: trains a small CNN on all ranks of the job");
  auto add = all.add_options();
  add("help", "show this and end");
  add("data", po::value(&o.data)->default_value(o.data),
      "folder with the four IDX files (Debian's package dataset-fashion-mnist has them)");
  add("device", po::value(&o.device)->default_value(o.device), "cpu, or cuda: this rank's GPU");
  add("epochs", po::value(&o.epochs)->default_value(o.epochs), "passes over the images");
  add("batch-size", po::value(&o.batch_size)->default_value(o.batch_size),
      "images a rank and step");
  add("lr", po::value(&o.lr)->default_value(o.lr), "learning rate of Adam");
  add("seed", po::value(&o.seed)->default_value(o.seed), "of weights and shuffling");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::cout << all;
    return false;
  }
  po::notify(values);
  if (o.device != "cpu" && o.device != "cuda")
    throw po::error("--device " + o.device + ": it is cpu or cuda");
  if (o.epochs < 1 || o.batch_size < 1)
    throw po::error("--epochs and --batch-size must be at least 1");
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
    std::cerr << "fashion_mnist: " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "fashion_mnist: " << error.what() << "\n";
    return 1;
  }
}
