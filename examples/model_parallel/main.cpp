// Trains one model whose halves are on two devices, or on two ranks; more ranks have more copies.
//   build/release/bin/model_parallel
//   kolo run -np 2 build/release/bin/model_parallel [--compare]
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "places.hpp"

namespace {

namespace po = boost::program_options;
using model_parallel::Placement;
using model_parallel::Places;

struct Options {
  std::string data = KOLO_DEFAULT_DATA;
  std::string device = "cpu";
  std::int64_t steps = 300;
  std::int64_t batch_size = 64;  // of all copies together
  double lr = 0.1;
  std::uint64_t seed = 1;
  bool compare = false;
};

struct Result {
  std::vector<double> losses;  // of some steps
  double correct = 0;          // number of test images that are classified correctly
};

// The same batches whatever the number of copies, so that losses can be compared.
void train(Places& places, const Options& options, Result& result) {
  const kolo::data::MNIST digits(options.data);
  const auto count = static_cast<std::int64_t>(*digits.size());
  const std::int64_t own = options.batch_size / places.copies();
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const std::int64_t at = step * options.batch_size % (count - options.batch_size + 1);
    const std::int64_t first = at + places.copy() * own;
    const double loss = places.train(digits.images().slice(0, first, first + own),
                                     digits.labels().slice(0, first, first + own));
    if (step % 50 != 0 && step + 1 != options.steps) continue;
    result.losses.push_back(places.sum(loss) / places.copies());
    if (kolo::rank() == 0)
      std::printf("Step %ld: loss %.4f\n", static_cast<long>(step), result.losses.back());
  }
}

void test(Places& places, const Options& options, Result& result) {
  const kolo::data::MNIST digits(options.data, kolo::data::MNIST::Mode::kTest);
  const auto count = static_cast<std::int64_t>(*digits.size());
  const std::int64_t first = count * places.copy() / places.copies();
  const std::int64_t last = count * (places.copy() + 1) / places.copies();
  result.correct = places.sum(
      places.correct(digits.images().slice(0, first, last), digits.labels().slice(0, first, last)));
  if (kolo::rank() == 0)
    std::printf("Accuracy: %.0f/%ld\n", result.correct, static_cast<long>(count));
}

Result train_and_test(Placement placement, const Options& options) {
  const std::unique_ptr<Places> places =
      model_parallel::make_places(placement, options.device, options.lr, options.seed);
  if (options.batch_size % places->copies() != 0) {
    throw po::error("--batch-size " + std::to_string(options.batch_size) + ": " +
                    std::to_string(places->copies()) + " copies cannot have equal parts of it");
  }
  Result result;
  train(*places, options, result);
  test(*places, options, result);
  return result;
}

double largest_difference(const Result& a, const Result& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]));
  return largest;
}

// Trains the same model in three ways: on rank 0 alone on one device and on two, and on two ranks.
void compare(const Options& options) {
  if (kolo::size() != 2) throw po::error("--compare: start two ranks (kolo run -np 2)");
  Result alone[2];
  for (const Placement placement : {Placement::kOneDevice, Placement::kTwoDevices}) {
    if (kolo::rank() != 0) continue;
    const bool two = placement == Placement::kTwoDevices;
    const bool has_two = options.device == "cuda" && torch::cuda::device_count() > 1;
    std::puts(!two ? "One device:" : has_two ? "Two devices:" : "Two devices (there is only one):");
    alone[two ? 1 : 0] = train_and_test(placement, options);
  }
  if (kolo::rank() == 0) std::puts("Two ranks:");
  const Result on_ranks = train_and_test(Placement::kTwoRanks, options);
  if (kolo::rank() != 0) return;
  std::printf("Largest difference of a loss from one device: two devices %.2g, two ranks %.2g\n",
              largest_difference(alone[0], alone[1]), largest_difference(alone[0], on_ranks));
}

// Whether there is something to do.
bool parse(int argc, char** argv, Options& o) {
  po::options_description all(
      "model_parallel: trains a model whose halves are on two devices, or on two ranks");
  auto add = all.add_options();
  add("help", "show this and end");
  add("data", po::value(&o.data)->default_value(o.data),
      "folder with the four IDX files, plain or gzip");
  add("device", po::value(&o.device)->default_value(o.device), "cpu or cuda");
  add("steps", po::value(&o.steps)->default_value(o.steps), "how long to train");
  add("batch-size", po::value(&o.batch_size)->default_value(o.batch_size),
      "images a step, divided among the copies of the model");
  add("lr", po::value(&o.lr)->default_value(o.lr), "learning rate of SGD");
  add("seed", po::value(&o.seed)->default_value(o.seed), "of the weights");
  add("compare", po::bool_switch(&o.compare),
      "train on one device, on two, and on two ranks, one after the other");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::cout << all;
    return false;
  }
  po::notify(values);
  if (o.device != "cpu" && o.device != "cuda")
    throw po::error("--device " + o.device + ": it is cpu or cuda");
  if (o.steps < 1 || o.batch_size < 1)
    throw po::error("--steps and --batch-size must be at least 1");
  return true;
}

void run(const Options& options) {
  if (options.compare) return compare(options);
  train_and_test(kolo::size() == 1 ? Placement::kTwoDevices : Placement::kTwoRanks, options);
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
    std::cerr << "model_parallel: " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "model_parallel: " << error.what() << "\n";
    return 1;
  }
}
