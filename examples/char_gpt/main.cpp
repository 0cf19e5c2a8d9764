// Trains a small GPT on the characters of a text, on all ranks of a job.
//   kolo run -np 2 build/release/bin/char_gpt --text README.md
#include <kolo/kolo.h>
#include <torch/torch.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "model.hpp"

namespace {

namespace po = boost::program_options;

struct Options {
  std::vector<std::string> text;
  std::string device = "auto";
  std::int64_t epochs = 5;
  std::int64_t batch_size = 16;  // of each rank
  std::int64_t accumulate = 2;
  double lr = 3e-3;
  std::int64_t sample = 200;  // characters that are written in the end
  std::uint64_t seed = 1;
};

// The bytes of all files, one after the other: uint8 [N].
torch::Tensor read_bytes(const std::vector<std::string>& paths) {
  std::string bytes;
  for (const std::string& path : paths) {
    std::ostringstream text;
    std::ifstream file(path, std::ios::binary);
    if (!file || !(text << file.rdbuf()))
      throw std::runtime_error(path + ": the file cannot be read");
    bytes += text.str();
  }
  return torch::tensor(
      at::ArrayRef<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
      torch::kByte);
}

// Sample i are the `context` bytes from i * context on, and its targets the bytes after each.
kolo::data::Dataset windows_of(const torch::Tensor& bytes, std::int64_t context) {
  const std::int64_t count = (bytes.size(0) - 1) / context;
  return {bytes.slice(0, 0, count * context).reshape({count, context}),
          bytes.slice(0, 1, count * context + 1).reshape({count, context})};
}

torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& next) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1),
                                              next.flatten().to(torch::kLong));
}

// Returns `count` characters that the model writes after a line's end.
std::string written(char_gpt::Gpt& gpt, std::int64_t count, std::int64_t context,
                    torch::Device device) {
  const torch::NoGradGuard no_grad;
  gpt->eval();
  torch::Tensor text =
      torch::full({1, 1}, std::int64_t{'\n'}, torch::TensorOptions(torch::kLong).device(device));
  std::string words;
  for (std::int64_t i = 0; i < count; ++i) {
    const torch::Tensor seen = text.slice(1, std::max<std::int64_t>(0, text.size(1) - context));
    const torch::Tensor logits = gpt(seen).select(1, -1) / 0.8;  // a little more certain than it is
    const torch::Tensor next = torch::softmax(logits, 1).multinomial(1);
    text = torch::cat({text, next}, 1);
    const auto letter = static_cast<char>(next.item<std::int64_t>());
    words.push_back(letter == '\n' || (letter >= ' ' && letter <= '~') ? letter : '?');
  }
  return words;
}

void train(const Options& options) {
  const char_gpt::Size size;
  torch::manual_seed(options.seed);
  char_gpt::Gpt gpt(size);
  kolo::Trainer trainer(gpt, loss_of,
                        kolo::TrainerOptions()
                            .epochs(options.epochs)
                            .batch_size(options.batch_size)
                            .accumulate(options.accumulate)
                            .clip_grad_norm(1.0)
                            .device(options.device)
                            .seed(options.seed));
  trainer.optimizer<kolo::optim::FusedAdamW>(
      torch::optim::AdamWOptions(options.lr).betas({0.9, 0.95}).weight_decay(0.1));

  const torch::Tensor bytes = read_bytes(options.text);
  const std::int64_t least = 10 * (size.context + 1);
  if (bytes.size(0) < least) {
    throw std::runtime_error("the text has " + std::to_string(bytes.size(0)) + " bytes; at least " +
                             std::to_string(least) +
                             " are needed, of which a tenth is for validation");
  }
  const std::int64_t learned = bytes.size(0) * 9 / 10;
  const kolo::Datasets sets{windows_of(bytes.slice(0, 0, learned), size.context),
                            windows_of(bytes.slice(0, learned), size.context)};
  const std::int64_t batch = options.batch_size * options.accumulate * kolo::size();
  const std::int64_t steps =
      options.epochs * ((static_cast<std::int64_t>(sets.train.size()) + batch - 1) / batch);
  const std::int64_t warm_up = std::max<std::int64_t>(1, steps / 10);
  trainer.schedule(kolo::optim::warm_up(warm_up, kolo::optim::CosineAnnealingLR(
                                                     std::max<std::int64_t>(1, steps - warm_up))),
                   kolo::Interval::Step);
  trainer.train(sets.train, sets.valid);
  if (trainer.is_root())
    std::printf("%s\n", written(gpt, options.sample, size.context, trainer.device()).c_str());
}

// Whether there is something to do.
bool parse(int argc, char** argv, Options& o) {
  po::options_description all("char_gpt: trains a small GPT on the characters of a text");
  auto add = all.add_options();
  add("help", "show this and end");
  add("text", po::value(&o.text)->multitoken(), "the files that it learns from");
  add("device", po::value(&o.device)->default_value(o.device), "cpu, cuda, or auto");
  add("np", po::value<int>(), "ranks to start, if no launcher has started the program");
  add("epochs", po::value(&o.epochs)->default_value(o.epochs), "passes over the text");
  add("batch-size", po::value(&o.batch_size)->default_value(o.batch_size),
      "pieces of text a rank and batch");
  add("accumulate", po::value(&o.accumulate)->default_value(o.accumulate), "batches a step");
  add("lr", po::value(&o.lr)->default_value(o.lr), "the largest learning rate");
  add("sample", po::value(&o.sample)->default_value(o.sample), "characters to write in the end");
  add("seed", po::value(&o.seed)->default_value(o.seed), "of weights and shuffling");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::cout << all;
    return false;
  }
  po::notify(values);
  if (o.text.empty()) throw po::error("give --text FILE");
  constexpr std::int64_t kMost = 1'000'000;
  if (o.epochs < 1 || o.epochs > kMost) throw po::error("--epochs must be from 1 to 1000000");
  if (o.batch_size < 1 || o.batch_size > kMost || o.accumulate < 1 || o.accumulate > kMost)
    throw po::error("--batch-size and --accumulate must be from 1 to 1000000");
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return kolo::launch(argc, argv, [&] {
      Options options;
      if (parse(argc, argv, options)) train(options);
    });
  } catch (const po::error& error) {
    std::cerr << "char_gpt: " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "char_gpt: " << error.what() << "\n";
    return 1;
  }
}
