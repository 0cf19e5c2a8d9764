// Small programs after well-known shapes. Each trains and returns its parameters. It is written
// once, for one process; `World` adds the lines by which README.md makes a program distributed, or
// nothing. Those of several ranks train on a GPU where they are compiled for one.
#pragma once

#include <kolo/kolo.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

namespace programs {

using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kBatch = 12;  // of all ranks together; divides by 1, 2 and 3

// One process with the whole batch.
struct Alone {
  template <class Base, class Module, class Options>
  static auto optimizer(Module& module, const Options& options) {
    return std::make_unique<Base>(module->parameters(), options);
  }
  template <class Module>
  static void begin(Module& /*module*/) {}
  static at::Tensor share(const at::Tensor& all, std::int64_t /*dim*/ = 0) { return all; }
};

inline at::Device device() {
#ifdef KOLO_ON_GPU
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(kolo::local_device()));
#else
  return at::Device(at::kCPU);
#endif
}

// Several ranks, each with its share of the batch.
struct Together {
  template <class Base, class Module, class Options>
  static auto optimizer(Module& module, const Options& options) {
    return std::make_unique<kolo::DistributedOptimizer<Base>>(module, options);
  }
  template <class Module>
  static void begin(Module& module) {
    module->to(device());
    kolo::broadcast_parameters(module);
  }
  static at::Tensor share(const at::Tensor& all, std::int64_t dim = 0) {
    const std::int64_t count = all.size(dim) / kolo::size();
    return all.narrow(dim, count * kolo::rank(), count).to(device());
  }
};

// Noise, images, ...: the same in every run.
inline at::Tensor data(std::vector<std::int64_t> shape, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(shape, generator, torch::kDouble);
}
inline at::Tensor indices(std::int64_t below, std::vector<std::int64_t> shape, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randint(below, shape, generator, torch::kLong);
}

inline Tensors values(const torch::nn::Module& module) {
  Tensors all;
  for (const at::Tensor& parameter : module.parameters())
    all.push_back(parameter.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  return all;
}

// --- deep convolutional GAN: two backward() for the discriminator, one through it for the
// generator ---

template <class World>
Tensors dcgan() {
  namespace nn = torch::nn;
  nn::Sequential generator(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(5, 6, 4)), nn::ReLU(),
                           nn::ConvTranspose2d(nn::ConvTranspose2dOptions(6, 1, 4).stride(2)),
                           nn::Tanh());
  nn::Sequential discriminator(nn::Conv2d(nn::Conv2dOptions(1, 4, 4).stride(2)),
                               nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                               nn::Conv2d(nn::Conv2dOptions(4, 1, 4)), nn::Sigmoid(),
                               nn::Flatten());
  generator->to(torch::kDouble);
  discriminator->to(torch::kDouble);
  World::begin(generator);
  World::begin(discriminator);
  const auto adam = torch::optim::AdamOptions(2e-3).betas({0.5, 0.999});
  auto of_generator = World::template optimizer<torch::optim::Adam>(generator, adam);
  auto of_discriminator = World::template optimizer<torch::optim::Adam>(discriminator, adam);
  for (std::uint64_t step = 0; step < 5; ++step) {
    const at::Tensor real = World::share(data({kBatch, 1, 10, 10}, 100 + step));
    const at::Tensor noise = World::share(data({kBatch, 5, 1, 1}, 200 + step));
    of_discriminator->zero_grad();
    const at::Tensor judged = discriminator->forward(real);
    torch::binary_cross_entropy(judged, torch::full_like(judged, 0.9)).backward();
    const at::Tensor fake = generator->forward(noise);
    const at::Tensor judged_fake = discriminator->forward(fake.detach());
    torch::binary_cross_entropy(judged_fake, torch::zeros_like(judged_fake)).backward();
    of_discriminator->step();
    of_generator->zero_grad();
    const at::Tensor judged_again = discriminator->forward(fake);
    torch::binary_cross_entropy(judged_again, torch::ones_like(judged_again)).backward();
    of_generator->step();
  }
  Tensors all = values(*generator);
  for (const at::Tensor& value : values(*discriminator)) all.push_back(value);
  return all;
}

// --- conditional GAN: labels are embedded, losses added up, the module zeroes gradients ---

struct ConditionalImpl : torch::nn::Module {
  ConditionalImpl(std::int64_t in, std::int64_t out)
      : labels(register_module("labels", torch::nn::Embedding(4, 3))),
        hidden(register_module("hidden", torch::nn::Linear(in + 3, 16))),
        last(register_module("last", torch::nn::Linear(16, out))) {
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& label) {
    const at::Tensor both = torch::cat({x, labels->forward(label)}, 1);
    return last->forward(torch::tanh(hidden->forward(both)));
  }
  torch::nn::Embedding labels;
  torch::nn::Linear hidden;
  torch::nn::Linear last;
};
TORCH_MODULE(Conditional);

template <class World>
Tensors conditional_gan() {
  Conditional generator(4, 6);
  Conditional discriminator(6, 1);
  World::begin(generator);
  World::begin(discriminator);
  const torch::optim::RMSpropOptions options(1e-3);
  auto of_generator = World::template optimizer<torch::optim::RMSprop>(generator, options);
  auto of_discriminator = World::template optimizer<torch::optim::RMSprop>(discriminator, options);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const at::Tensor label = World::share(indices(4, {kBatch}, 300 + step));
    const at::Tensor real = World::share(data({kBatch, 6}, 310 + step));
    const at::Tensor noise = World::share(data({kBatch, 4}, 320 + step));
    // The generator first: its loss leaves gradients in the discriminator.
    generator->zero_grad();
    const at::Tensor fake = generator->forward(noise, label);
    (-discriminator->forward(fake, label).mean()).backward();
    of_generator->step();
    discriminator->zero_grad();
    const at::Tensor judged = discriminator->forward(real, label);
    const at::Tensor judged_fake = discriminator->forward(fake.detach(), label);
    const at::Tensor penalty = (judged.pow(2) + judged_fake.pow(2)).mean();
    (judged_fake.mean() - judged.mean() + 0.1 * penalty).backward();
    of_discriminator->step();
  }
  Tensors all = values(*generator);
  for (const at::Tensor& value : values(*discriminator)) all.push_back(value);
  return all;
}

// --- PPO: several epochs over what was collected, clipped ratios and gradients, two heads ---

struct ActorCriticImpl : torch::nn::Module {
  ActorCriticImpl()
      : trunk(register_module("trunk", torch::nn::Linear(4, 16))),
        actor(register_module("actor", torch::nn::Linear(16, 3))),
        critic(register_module("critic", torch::nn::Linear(16, 1))) {
    to(torch::kDouble);
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& state) {
    const at::Tensor h = torch::tanh(trunk->forward(state));
    return {torch::log_softmax(actor->forward(h), 1), critic->forward(h).squeeze(1)};
  }
  torch::nn::Linear trunk;
  torch::nn::Linear actor;
  torch::nn::Linear critic;
};
TORCH_MODULE(ActorCritic);

template <class World>
Tensors ppo() {
  ActorCritic net;
  World::begin(net);
  auto optimizer =
      World::template optimizer<torch::optim::Adam>(net, torch::optim::AdamOptions(3e-3));
  for (std::uint64_t rollout = 0; rollout < 2; ++rollout) {
    const at::Tensor states = World::share(data({2 * kBatch, 4}, 400 + rollout));
    const at::Tensor actions = World::share(indices(3, {2 * kBatch}, 410 + rollout)).unsqueeze(1);
    const at::Tensor returns = World::share(data({2 * kBatch}, 420 + rollout));
    const at::Tensor advantages = World::share(data({2 * kBatch}, 430 + rollout));
    const at::Tensor before = net->forward(states).first.gather(1, actions).squeeze(1).detach();
    for (int epoch = 0; epoch < 4; ++epoch) {
      const auto [probabilities, value] = net->forward(states);
      const at::Tensor ratio = (probabilities.gather(1, actions).squeeze(1) - before).exp();
      const at::Tensor gain =
          torch::min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean();
      const at::Tensor entropy = -(probabilities.exp() * probabilities).sum(1).mean();
      optimizer->zero_grad();
      (0.5 * (returns - value).pow(2).mean() - gain - 0.01 * entropy).backward();
      torch::nn::utils::clip_grad_norm_(net->parameters(), 0.5);
      optimizer->step();
    }
  }
  return values(*net);
}

// --- a language model with an LSTM, and backpropagation through time that is cut off ---

struct LanguageModelImpl : torch::nn::Module {
  LanguageModelImpl()
      : words(register_module("words", torch::nn::Embedding(11, 6))),
        lstm(register_module("lstm", torch::nn::LSTM(6, 8))),
        decoder(register_module("decoder", torch::nn::Linear(8, 11))) {
    to(torch::kDouble);
  }
  torch::nn::Embedding words;
  torch::nn::LSTM lstm;
  torch::nn::Linear decoder;
};
TORCH_MODULE(LanguageModel);

template <class World>
Tensors language_model() {
  LanguageModel net;
  World::begin(net);
  auto optimizer = World::template optimizer<torch::optim::SGD>(net, torch::optim::SGDOptions(1.0));
  const at::Tensor text = World::share(indices(11, {31, kBatch}, 500), 1);
  const std::int64_t columns = text.size(1);
  const at::Tensor start = torch::zeros({1, columns, 8}, net->decoder->weight.options());
  auto state = std::make_tuple(start, start);
  for (std::int64_t begin = 0; begin < 30; begin += 5) {
    state = std::make_tuple(std::get<0>(state).detach(), std::get<1>(state).detach());
    net->zero_grad();
    at::Tensor output;
    std::tie(output, state) =
        net->lstm->forward(net->words->forward(text.narrow(0, begin, 5)), state);
    torch::nn::functional::cross_entropy(net->decoder->forward(output).reshape({-1, 11}),
                                         text.narrow(0, begin + 1, 5).reshape({-1}))
        .backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 0.25);
    optimizer->step();
  }
  return values(*net);
}

// --- variational autoencoder ---

struct VaeImpl : torch::nn::Module {
  VaeImpl()
      : encoder(register_module("encoder", torch::nn::Linear(10, 12))),
        mean(register_module("mean", torch::nn::Linear(12, 3))),
        log_variance(register_module("log_variance", torch::nn::Linear(12, 3))),
        decoder(register_module("decoder", torch::nn::Linear(3, 10))) {
    to(torch::kDouble);
  }
  torch::nn::Linear encoder;
  torch::nn::Linear mean;
  torch::nn::Linear log_variance;
  torch::nn::Linear decoder;
};
TORCH_MODULE(Vae);

template <class World>
Tensors vae() {
  Vae net;
  World::begin(net);
  auto optimizer =
      World::template optimizer<torch::optim::AdamW>(net, torch::optim::AdamWOptions(1e-2));
  for (std::uint64_t step = 0; step < 6; ++step) {
    const at::Tensor image = torch::sigmoid(World::share(data({kBatch, 10}, 600 + step)));
    const at::Tensor noise = World::share(data({kBatch, 3}, 620 + step));
    const at::Tensor h = torch::relu(net->encoder->forward(image));
    const at::Tensor mean = net->mean->forward(h);
    const at::Tensor log_variance = net->log_variance->forward(h);
    const at::Tensor code = mean + noise * (0.5 * log_variance).exp();
    const at::Tensor output = torch::sigmoid(net->decoder->forward(code));
    const at::Tensor divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp());
    optimizer->zero_grad();
    (torch::binary_cross_entropy(output, image) + divergence.sum(1).mean()).backward();
    optimizer->step();
  }
  return values(*net);
}

// --- transfer learning: the backbone is frozen, with its BatchNorm, and later half of it thaws ---

struct TransferImpl : torch::nn::Module {
  TransferImpl()
      : backbone(register_module(
            "backbone",
            torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)),
                                  torch::nn::BatchNorm2d(4), torch::nn::ReLU(),
                                  torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3))))),
        head(register_module("head", torch::nn::Linear(16, 3))) {
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& image) {
    return head->forward(torch::relu(backbone->forward(image)).flatten(1));
  }
  torch::nn::Sequential backbone;
  torch::nn::Linear head;
};
TORCH_MODULE(Transfer);

template <class World>
Tensors transfer() {
  Transfer net;
  World::begin(net);
  for (at::Tensor& parameter : net->backbone->parameters()) parameter.set_requires_grad(false);
  auto optimizer = World::template optimizer<torch::optim::SGD>(
      net, torch::optim::SGDOptions(0.1).momentum(0.9));
  net->train();
  net->backbone->eval();
  for (std::uint64_t step = 0; step < 8; ++step) {
    if (step == 4) {
      for (at::Tensor& parameter : net->backbone[3]->parameters())
        parameter.set_requires_grad(true);
    }
    const at::Tensor image = World::share(data({kBatch, 1, 6, 6}, 700 + step));
    const at::Tensor label = World::share(indices(3, {kBatch}, 720 + step));
    optimizer->zero_grad();
    torch::nn::functional::cross_entropy(net->forward(image), label).backward();
    optimizer->step();
  }
  return values(*net);
}

// --- LBFGS, with a line search ---

template <class World>
Tensors lbfgs() {
  torch::nn::Sequential net(torch::nn::Linear(3, 5), torch::nn::Tanh(), torch::nn::Linear(5, 1));
  net->to(torch::kDouble);
  World::begin(net);
  auto optimizer = World::template optimizer<torch::optim::LBFGS>(
      net, torch::optim::LBFGSOptions(0.5).max_iter(4).line_search_fn("strong_wolfe"));
  const at::Tensor x = World::share(data({kBatch, 3}, 800));
  const at::Tensor y = World::share(data({kBatch, 1}, 801));
  for (int step = 0; step < 2; ++step) {
    optimizer->step([&] {
      optimizer->zero_grad();
      const at::Tensor loss = torch::mse_loss(net->forward(x), y);
      loss.backward();
      return loss;
    });
  }
  return values(*net);
}

// --- GPT: embedding and output share their weights, gradients are accumulated over parts of a
// batch ---

struct GptImpl : torch::nn::Module {
  GptImpl()
      : tokens(register_module("tokens", torch::nn::Embedding(13, 8))),
        positions(register_module("positions", torch::nn::Embedding(6, 8))),
        qkv(register_module("qkv", torch::nn::Linear(8, 24))),
        projection(register_module("projection", torch::nn::Linear(8, 8))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})))),
        head(register_parameter("head", tokens->weight)) {  // parameters() has it twice
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& index) {
    const std::int64_t length = index.size(1);
    at::Tensor x =
        tokens->forward(index) + positions->forward(torch::arange(length, index.options()));
    const auto parts = qkv->forward(norm->forward(x)).chunk(3, 2);
    const at::Tensor mask =
        torch::ones({length, length}, index.options().dtype(torch::kBool)).triu(1);
    const at::Tensor scores =
        (parts[0].matmul(parts[1].transpose(1, 2)) / std::sqrt(8.0)).masked_fill(mask, -1e9);
    x = x + projection->forward(torch::softmax(scores, 2).matmul(parts[2]));
    return x.matmul(head.t());
  }
  torch::nn::Embedding tokens;
  torch::nn::Embedding positions;
  torch::nn::Linear qkv;
  torch::nn::Linear projection;
  torch::nn::LayerNorm norm;
  at::Tensor head;
};
TORCH_MODULE(Gpt);

template <class World>
Tensors gpt() {
  Gpt net;
  World::begin(net);
  auto optimizer =
      World::template optimizer<torch::optim::AdamW>(net, torch::optim::AdamWOptions(1e-3));
  constexpr int kParts = 3;
  for (std::uint64_t step = 0; step < 4; ++step) {
    optimizer->zero_grad();
    for (std::uint64_t part = 0; part < kParts; ++part) {
      const at::Tensor text = World::share(indices(13, {kBatch, 7}, 900 + 10 * step + part));
      const at::Tensor output = net->forward(text.narrow(1, 0, 6));
      (torch::nn::functional::cross_entropy(output.reshape({-1, 13}),
                                            text.narrow(1, 1, 6).reshape({-1})) /
       kParts)
          .backward();
    }
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
    optimizer->step();
  }
  return values(*net);
}

}  // namespace programs
