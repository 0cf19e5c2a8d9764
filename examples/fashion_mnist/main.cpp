// Trains a small CNN on Fashion-MNIST on all ranks of a job, on CPUs or on GPUs by one switch.
//   kolo run -np 2 build/release/bin/fashion_mnist --device cpu
//   kolo run -np 2 build/release/bin/fashion_mnist --measure-loading --plot loading.svg
//   build/release/bin/fashion_mnist --measure-inference --plot inference.svg
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <boost/program_options.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "measure.hpp"
#include "net.hpp"

namespace {

namespace po = boost::program_options;
using fashion_mnist::kDeviation;
using fashion_mnist::kMean;
using fashion_mnist::Net;

struct Options {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string device = "auto";
  std::int64_t epochs = 5;
  std::int64_t batch_size = 64;  // of each rank
  double lr = 1e-3;
  std::uint64_t seed = 1;
  bool measure_loading = false;
  bool measure_inference = false;
  std::string plot;  // an SVG file for what is measured
};

void train(const Options& options) {
  const auto images = [&](kolo::data::MNIST::Mode mode) {
    return kolo::data::MNIST(options.data, mode)
        .map(torch::data::transforms::Normalize<>(kMean, kDeviation));
  };
  torch::manual_seed(options.seed);
  const Net net;
  const auto loss = [](const torch::Tensor& output, const torch::Tensor& target) {
    return torch::nll_loss(output, target);
  };
  kolo::Trainer trainer(net, loss,
                        kolo::TrainerOptions()
                            .epochs(options.epochs)
                            .batch_size(options.batch_size)
                            .valid_batch_size(1000)
                            .device(options.device)
                            .seed(options.seed));
  trainer.optimizer<torch::optim::Adam>(torch::optim::AdamOptions(options.lr));
  trainer.metric("accuracy", kolo::accuracy);
  using Mode = kolo::data::MNIST::Mode;
  trainer.train([&] { return kolo::Datasets{images(Mode::kTrain), images(Mode::kTest)}; });
}

// Whether there is something to do.
bool parse(int argc, char** argv, Options& o) {
  po::options_description all("fashion_mnist: trains a small CNN on all ranks of the job");
  auto add = all.add_options();
  add("help", "show this and end");
  add("data", po::value(&o.data)->default_value(o.data),
      "folder with the four IDX files (Debian's package dataset-fashion-mnist has them)");
  add("device", po::value(&o.device)->default_value(o.device),
      "cpu, cuda (this rank's GPU), or auto: the GPU if there is one");
  add("np", po::value<int>(), "ranks to start, if no launcher has started the program");
  add("epochs", po::value(&o.epochs)->default_value(o.epochs), "passes over the images");
  add("batch-size", po::value(&o.batch_size)->default_value(o.batch_size),
      "images a rank and step");
  add("lr", po::value(&o.lr)->default_value(o.lr), "learning rate of Adam");
  add("seed", po::value(&o.seed)->default_value(o.seed), "of weights and shuffling");
  add("measure-loading", po::bool_switch(&o.measure_loading),
      "do not train; measure how fast images are loaded, by the number of workers");
  add("measure-inference", po::bool_switch(&o.measure_inference),
      "do not train; measure, in one process, how fast images are classified on one device and on "
      "all, by the size of a batch");
  add("plot", po::value(&o.plot), "SVG file for what is measured");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::cout << all;
    return false;
  }
  po::notify(values);
  if (o.device != "cpu" && o.device != "cuda" && o.device != "auto")
    throw po::error("--device " + o.device + ": it is cpu, cuda or auto");
  if (o.epochs < 1 || o.batch_size < 1)
    throw po::error("--epochs and --batch-size must be at least 1");
  if (o.measure_loading && o.measure_inference)
    throw po::error("give --measure-loading or --measure-inference, not both");
  if (!o.plot.empty() && !o.measure_loading && !o.measure_inference)
    throw po::error("--plot needs --measure-loading or --measure-inference");
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (!parse(argc, argv, options)) return 0;
    if (options.measure_inference) {
      // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
      if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr)
        throw po::error("--measure-inference is for one process: start the program itself");
      fashion_mnist::measure_inference(options.device, options.plot);
      return 0;
    }
    return kolo::launch(argc, argv, [&] {
      if (options.measure_loading) {
        fashion_mnist::measure_loading(options.data, options.batch_size, options.plot);
      } else {
        train(options);
      }
    });
  } catch (const po::error& error) {
    std::cerr << "fashion_mnist: " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "fashion_mnist: " << error.what() << "\n";
    return 1;
  }
}
