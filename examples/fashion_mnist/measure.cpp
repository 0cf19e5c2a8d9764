#include "measure.hpp"

#include <kolo/kolo.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/plot.hpp"
#include "net.hpp"

namespace fashion_mnist {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Epoch {
  double seconds = 0;  // of the slowest rank
  double pixels = 0;   // their sum, over all ranks
};

Epoch load(kolo::data::MNIST images, std::int64_t batch_size, std::size_t workers) {
  const kolo::DistributedSampler sampler(*images.size(), {kolo::size(), kolo::rank()});
  const auto loader = torch::data::make_data_loader(
      images.map(torch::data::transforms::Normalize<>(kMean, kDeviation))
          .map(torch::data::transforms::Stack<>()),
      sampler,
      torch::data::DataLoaderOptions(static_cast<std::size_t>(batch_size)).workers(workers));
  double pixels = 0;
  const double seconds = seconds_of([&] {
    for (const auto& batch : *loader) pixels += batch.data.sum(torch::kDouble).item<double>();
  });
  const auto over_ranks = [](double value, kolo::ReduceOp op) {
    return kolo::allreduce(torch::tensor(value, torch::kDouble), op).item<double>();
  };
  return {over_ranks(seconds, kolo::ReduceOp::Max), over_ranks(pixels, kolo::ReduceOp::Sum)};
}

// Images per second, from the median time of at least 3 calls that take half a second in all.
double speed_of(const std::function<torch::Tensor()>& classify, std::int64_t batch) {
  const auto once = [&] {
    return seconds_of([&] { classify().sum().item<double>(); });  // waits for the device
  };
  once();
  std::vector<double> seconds;
  for (double all = 0; all < 0.5 || seconds.size() < 3; all += seconds.back())
    seconds.push_back(once());
  return static_cast<double>(batch) / median(seconds);
}

void draw(const std::string& file, const std::vector<example::Line>& lines, example::Axis axis,
          const std::string& x_label) {
  if (file.empty()) return;
  example::plot(file, lines, axis, x_label, "images per second");
  std::printf("Plot: %s\n", file.c_str());
}

}  // namespace

void measure_loading(const std::string& data, std::int64_t batch_size, const std::string& plot) {
  const kolo::data::MNIST images(data);
  const bool prints = kolo::rank() == 0;
  example::Line line{std::to_string(kolo::size()) + " ranks", {}};
  if (prints) std::printf("Workers of each of %d ranks, images per second of all:\n", kolo::size());
  double pixels = 0;
  for (const std::size_t workers : {0U, 1U, 2U, 4U, 8U}) {
    std::vector<double> seconds;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Epoch epoch = load(images, batch_size, workers);
      seconds.push_back(epoch.seconds);
      if (pixels == 0) pixels = epoch.pixels;
      // Batches come in another order, and so do the summands.
      if (std::abs(epoch.pixels - pixels) > 1e-6 * std::abs(pixels)) {
        throw std::runtime_error(std::to_string(workers) +
                                 " workers load different images than 0 workers");
      }
    }
    const double speed = static_cast<double>(*images.size()) / median(seconds);
    line.points.push_back({static_cast<double>(workers), speed});
    if (prints) std::printf("%7zu %12.0f\n", workers, speed);
  }
  if (prints) draw(plot, {line}, example::Axis::kLinear, "workers of each rank");
}

void measure_inference(const std::string& device, const std::string& plot) {
  const bool on_gpu = device == "cuda" || (device == "auto" && torch::cuda::is_available());
  const torch::NoGradGuard no_grad;
  Net net;
  net->eval();
  std::vector<torch::Device> devices(2, torch::kCPU);
  if (on_gpu) devices.clear();  // all
  kolo::DataParallel<NetImpl> parallel(net.ptr(), devices);
  const torch::Device first = net->fc->weight.device();
  const int parts = on_gpu ? static_cast<int>(torch::cuda::device_count()) : 2;
  std::printf("Images per second on %s, and in %d parts:\n  batch   one device DataParallel\n",
              first.str().c_str(), parts);
  example::Line alone{"one device", {}};
  example::Line together{"DataParallel, " + std::to_string(parts) + " parts", {}};
  for (std::int64_t batch = 1; batch <= 4096; batch *= 4) {
    const torch::Tensor images = torch::rand({batch, 1, 28, 28}, first);
    if (!torch::allclose(parallel.forward(images), net->forward(images), 1e-4, 1e-5))
      throw std::runtime_error("DataParallel gives other outputs than the model");
    const double one = speed_of([&] { return net->forward(images); }, batch);
    const double all = speed_of([&] { return parallel.forward(images); }, batch);
    alone.points.push_back({static_cast<double>(batch), one});
    together.points.push_back({static_cast<double>(batch), all});
    std::printf("%7ld %12.0f %12.0f\n", static_cast<long>(batch), one, all);
  }
  draw(plot, {alone, together}, example::Axis::kLogarithmic, "images in a batch");
}

}  // namespace fashion_mnist
