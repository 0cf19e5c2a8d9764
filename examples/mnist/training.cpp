#include "training.hpp"

#include <cstdio>
#include <stdexcept>

namespace mnist {
namespace {

constexpr double kMean = 0.1307;
constexpr double kDeviation = 0.3081;
// Batches between rows of the metrics file.
constexpr std::int64_t kMetricsInterval = 10;

torch::Device device_named(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(kolo::local_device())};
}

Net seeded_net(std::uint64_t seed, torch::Device device) {
  torch::manual_seed(seed);
  Net net;
  net->to(device);
  return net;
}

kolo::DistributedSampler make_sampler(std::size_t images, std::uint64_t seed) {
  kolo::DistributedSampler::Options options;
  options.num_replicas = kolo::size();
  options.rank = kolo::rank();
  options.seed = seed;
  return {images, options};
}

}  // namespace

Training::Training(const Options& options)
    : options_(options),
      begin_(std::chrono::steady_clock::now()),
      train_set_(options.data, kolo::data::MNIST::Mode::kTrain),
      test_set_(options.data, kolo::data::MNIST::Mode::kTest),
      sampler_(make_sampler(*train_set_.size(), options.seed)),
      steps_per_epoch_((static_cast<std::int64_t>(sampler_.size()) + options.batch_size - 1) /
                       options.batch_size),
      device_(device_named(options.device)),
      net_(seeded_net(options.seed, device_)),
      optimizer_(net_->parameters(), kolo::optim::AdadeltaOptions(options.lr)),
      scheduler_(optimizer_, 1, options.gamma),
      metrics_(options.metrics, kolo::rank() == 0),
      progress_(kolo::ProgressOptions()
                    .epochs(options.epochs)
                    .steps_per_epoch(steps_per_epoch_)
                    .unit("images")
                    .shown(options.progress)) {
  kolo::broadcast_parameters(*net_);
  // LibTorch's first step() changes nothing, where Python's scheduler makes that step when it is
  // constructed: from here on both agree.
  scheduler_.step();
  // The same weights everywhere, but each rank drops other units.
  torch::manual_seed(options.seed + static_cast<std::uint64_t>(kolo::rank()) + 1);
}

void Training::begin_or_resume() {
  if (options_.checkpoint.empty()) return;
  kolo::catch_stop_signals();
  checkpoint_.emplace(options_.checkpoint);
  checkpoint_->add("model", *net_).add("optimizer", optimizer_).add("scheduler", scheduler_);
  checkpoint_->add("sampler", sampler_).add("epoch", epoch_).add("step", step_);
  if (options_.resume) {
    const auto restored = checkpoint_->restore();
    if (restored && kolo::rank() == 0) std::printf("Resumed from %s\n", restored->path.c_str());
  } else if (checkpoint_->newest_step()) {
    throw std::runtime_error(options_.checkpoint +
                             " holds checkpoints; add --resume to go on from them, or give another "
                             "folder");
  }
}

void Training::checkpoint() {
  if (checkpoint_) checkpoint_->save(step_);
}

bool Training::run() {
  begin_or_resume();
  const std::int64_t last =
      options_.stop_after > 0 ? epoch_ + options_.stop_after - 1 : options_.epochs;
  bool stops = false;
  while (epoch_ <= options_.epochs && !stops) {
    if (train_epoch(epoch_)) {
      test(epoch_);
      scheduler_.step();
      ++epoch_;
      stops =
          epoch_ <= options_.epochs && (epoch_ > last || (checkpoint_ && kolo::stop_requested()));
    } else {
      stops = true;
    }
    checkpoint();
  }
  if (checkpoint_) checkpoint_->wait();
  progress_.clear();
  if (kolo::rank() == 0) std::printf("Total time: %.2f sec\n", seconds_since(begin_));
  return !stops;
}

bool Training::train_epoch(std::int64_t epoch) {
  net_->train();
  sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
  // More than 0 if this goes on in the middle of an epoch.
  std::int64_t batch = static_cast<std::int64_t>(sampler_.position()) / options_.batch_size;
  auto loader = torch::data::make_data_loader(
      train_set_.map(torch::data::transforms::Normalize<>(kMean, kDeviation))
          .map(torch::data::transforms::Stack<>()),
      sampler_, torch::data::DataLoaderOptions(static_cast<std::size_t>(options_.batch_size)));
  interval_begin_ = std::chrono::steady_clock::now();
  interval_images_ = 0;
  for (const auto& example : *loader) {
    const double loss = train_batch(example);
    interval_images_ += example.data.size(0);
    ++step_;
    report_batch(epoch, batch++, example.data.size(0), loss);
    const bool is_over = sampler_.position() >= sampler_.size();
    if (checkpoint_ && !is_over && kolo::stop_requested()) return false;
  }
  return true;
}

double Training::train_batch(const torch::data::Example<>& batch) {
  optimizer_.zero_grad();
  const torch::Tensor loss =
      torch::nll_loss(net_(batch.data.to(device_)), batch.target.to(device_));
  loss.backward();
  optimizer_.step();
  return loss.item<double>();
}

void Training::report_batch(std::int64_t epoch, std::int64_t batch, std::int64_t images,
                            double loss) {
  const bool root = kolo::rank() == 0;
  if (root && batch % options_.log_interval == 0) {
    const auto total = static_cast<std::int64_t>(*train_set_.size());
    progress_.clear();
    std::printf("Train Epoch: %ld [%ld/%ld (%.0f%%)]\tLoss: %.6f\n", static_cast<long>(epoch),
                static_cast<long>(batch * options_.batch_size * kolo::size()),
                static_cast<long>(total),
                100.0 * static_cast<double>(batch) / static_cast<double>(steps_per_epoch_), loss);
    std::fflush(stdout);
  }
  progress_.update(epoch, batch + 1, images, loss);
  const double seconds = seconds_since(interval_begin_);
  if (!metrics_.wanted() || (batch + 1) % kMetricsInterval != 0) return;
  torch::Tensor by_rank = torch::zeros({kolo::size(), 2}, torch::kDouble);
  by_rank[kolo::rank()][0] = loss;
  by_rank[kolo::rank()][1] = static_cast<double>(interval_images_) / seconds;
  kolo::allreduce_(by_rank, kolo::AllreduceOptions("metrics").op(kolo::ReduceOp::Sum));
  metrics_.train(epoch, (epoch - 1) * steps_per_epoch_ + batch + 1, seconds_since(begin_), by_rank);
  interval_begin_ = std::chrono::steady_clock::now();
  interval_images_ = 0;
}

// Each rank tests its share with rank 0's running statistics, so that the result is that of the
// weights that are saved.
void Training::test(std::int64_t epoch) {
  const torch::NoGradGuard no_grad;
  kolo::broadcast_parameters(net_->named_buffers());
  net_->eval();
  const torch::Tensor images = test_set_.images();
  const torch::Tensor labels = test_set_.labels();
  const std::int64_t count = images.size(0);
  const std::int64_t first = count * kolo::rank() / kolo::size();
  const std::int64_t last = count * (kolo::rank() + 1) / kolo::size();
  torch::Tensor sums = torch::zeros({2}, torch::kDouble);  // loss, correct
  for (std::int64_t at = first; at < last; at += options_.test_batch_size) {
    const std::int64_t end = std::min(last, at + options_.test_batch_size);
    const torch::Tensor output =
        net_(((images.slice(0, at, end) - kMean) / kDeviation).to(device_));
    const torch::Tensor target = labels.slice(0, at, end).to(device_);
    sums[0] += torch::nll_loss(output, target, {}, torch::Reduction::Sum).item<double>();
    sums[1] += output.argmax(1).eq(target).sum().item<double>();
  }
  kolo::allreduce_(sums, kolo::AllreduceOptions("test").op(kolo::ReduceOp::Sum));
  if (kolo::rank() != 0) return;
  const double loss = sums[0].item<double>() / static_cast<double>(count);
  const double correct = sums[1].item<double>();
  progress_.clear();
  std::printf("\nTest set: Average loss: %.4f, Accuracy: %.0f/%ld (%.0f%%)\n\n", loss, correct,
              static_cast<long>(count), 100.0 * correct / static_cast<double>(count));
  std::fflush(stdout);
  metrics_.test(epoch, epoch * steps_per_epoch_, seconds_since(begin_), loss,
                correct / static_cast<double>(count));
}

// From the CPU, so that machines without a GPU can load it.
void Training::save() {
  if (kolo::rank() != 0) return;
  net_->to(torch::kCPU);
  torch::save(net_, options_.out);
}

}  // namespace mnist
