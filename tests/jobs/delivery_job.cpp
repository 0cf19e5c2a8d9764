// Goes through epochs of a loader's batches and says what has come:
//
//   delivery_job [--samples N] [--epochs E] [--batch B] [--load-ms MS] [--step-ms MS] [--workers W]
//                [--fail-at SAMPLE] [--other-seed] [--unregistered] [--again] [--stop-after
//                BATCHES]
//
// Rank 0 prints "epoch E: N samples, digest D", where D depends on each batch of each rank, its
// order and its transform, and fails if a sample is missing or comes twice. --load-ms is what a
// batch costs its loader, and --step-ms what it costs the rank.
#include <kolo/kolo.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <thread>

namespace {

struct Settings {
  std::map<std::string, std::int64_t> values = {
      {"--samples", 960},    {"--epochs", 2},   {"--batch", 8},      {"--load-ms", 0},
      {"--step-ms", 0},      {"--workers", 1},  {"--fail-at", -1},   {"--other-seed", 0},
      {"--unregistered", 0}, {"--again", 0},    {"--stop-after", 0}, {"--nothing", 0},
      {"--two", 0},          {"--drop-last", 0}};
  std::int64_t operator[](const std::string& name) const { return values.at(name); }
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (settings.values.count(name) == 0) throw std::invalid_argument("unknown option " + name);
    const bool has_value = i + 1 < argc && argv[i + 1][0] != '-';
    settings.values[name] = has_value ? std::stoll(argv[++i]) : 1;
  }
  return settings;
}

void wait(std::int64_t milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Sample i is [i, 0]; the transform puts a random number beside it. Batches cost time.
kolo::delivery::Source source(const Settings& settings) {
  // How often and where it was called.
  if (const char* folder = std::getenv("MADE"))
    std::ofstream(std::string(folder) + "/made-" + std::to_string(::getpid())) << kolo::rank();
  const kolo::data::Dataset dataset(
      static_cast<std::size_t>(settings["--samples"]), [settings](std::size_t i) {
        if (static_cast<std::int64_t>(i) == settings["--fail-at"])
          throw std::runtime_error("sample " + std::to_string(i) + " is damaged");
        return kolo::data::Batch(torch::tensor({static_cast<double>(i), 0.0}, torch::kDouble),
                                 torch::tensor(static_cast<std::int64_t>(i)));
      });
  return {dataset, {[settings](kolo::data::Batch& batch, const kolo::data::BatchInfo& info) {
            wait(settings["--load-ms"]);
            at::Tensor changed = batch.data.clone();
            for (std::int64_t i = 0; i < changed.size(0); ++i) {
              kolo::data::Random random = info.random(static_cast<std::size_t>(i));
              changed[i][1] = static_cast<double>(random.below(1000));
            }
            batch.data = changed;
          }}};
}

// Depends on the order of the batches and their contents.
std::int64_t digest(std::int64_t before, const kolo::data::Batch& batch) {
  const at::Tensor values = batch.data.to(torch::kLong).flatten();
  std::int64_t result = before;
  for (std::int64_t i = 0; i < values.numel(); ++i)
    result = (result * 31 + values[i].item<std::int64_t>()) % 1'000'003;
  return result;
}

int run(const Settings& settings) {
  using kolo::delivery::Options;
  kolo::init();
  if (settings["--nothing"] != 0) return 0;
  const bool is_other = settings["--other-seed"] != 0 && !kolo::delivery::is_loader_process();
  const Options options = Options().loader(kolo::DataLoaderOptions()
                                               .batch_size(settings["--batch"])
                                               .workers(static_cast<int>(settings["--workers"]))
                                               .drop_last(settings["--drop-last"] != 0)
                                               .seed(is_other ? 6 : 5));
  kolo::delivery::register_loader(
      "train", [settings] { return source(settings); }, options);
  if (settings["--two"] != 0)
    kolo::delivery::register_loader(
        "valid", [settings] { return source(settings); }, options);
  kolo::DataLoader loader = kolo::delivery::open("train");
  std::int64_t valid = 0;
  if (settings["--two"] != 0) {
    kolo::DataLoader other = kolo::delivery::open("valid");
    for (const auto& batch : other) valid = digest(valid, batch);
  }
  if (settings["--unregistered"] != 0)
    kolo::delivery::open(
        "valid", [settings] { return source(settings); }, options);
  if (settings["--again"] != 0) {
    kolo::delivery::unregister_loader("train");
    kolo::delivery::register_loader(
        "train", [settings] { return source(settings); }, options);
    loader = kolo::delivery::open("train");
  }
  double waited = 0;
  double total = 0;
  std::int64_t batches = 0;
  for (std::int64_t epoch = 0; epoch < settings["--epochs"]; ++epoch) {
    std::int64_t mine = 0;
    at::Tensor seen = torch::zeros(settings["--samples"], torch::kLong);
    const auto begin = std::chrono::steady_clock::now();
    auto last = begin;
    for (const auto& batch : loader) {
      const auto now = std::chrono::steady_clock::now();
      if (batches >= 20) waited += std::chrono::duration<double>(now - last).count();
      seen.index_add_(0, batch.target, torch::ones_like(batch.target));
      mine = digest(mine, batch);
      wait(settings["--step-ms"]);
      last = std::chrono::steady_clock::now();
      if (batches >= 20) total += std::chrono::duration<double>(last - now).count();
      ++batches;
      kolo::mark_step();
      if (batches == settings["--stop-after"]) break;
    }
    if (batches == settings["--stop-after"]) continue;
    kolo::allreduce_(seen, kolo::AllreduceOptions(kolo::ReduceOp::Sum).name("seen"));
    const at::Tensor digests = kolo::allgather(torch::tensor({mine}), "digest");
    const bool may_miss = settings["--drop-last"] != 0;
    const std::int64_t twice = (may_miss ? seen > 1 : seen != 1).sum().item<std::int64_t>();
    if (kolo::rank() == 0) {
      std::cout << "epoch " << epoch << ": " << seen.sum().item<std::int64_t>()
                << " samples, digest";
      for (std::int64_t i = 0; i < digests.numel(); ++i)
        std::cout << " " << digests[i].item<std::int64_t>();
      if (settings["--two"] != 0) std::cout << ", valid " << valid;
      std::cout << std::endl;
      if (twice > 0) std::cout << twice << " samples are missing or came twice" << std::endl;
    }
    if (twice > 0) return 1;
  }
  std::cerr << "waited " << 100 * waited / std::max(1e-9, waited + total) << " %\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "delivery_job: " << error.what() << std::endl;
    return 1;
  }
}
