// A small GPT (Radford and others 2019) over characters.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace char_gpt {

struct Size {
  std::int64_t characters = 256;
  std::int64_t context = 64;  // positions that a prediction sees
  std::int64_t width = 64;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  double dropout = 0.1;
};

// Attention of each position to itself and those before it: [B, T, width] to the same.
struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(const Size& size) : heads(size.heads) {
    project = register_module("project", torch::nn::Linear(size.width, 3 * size.width));
    merge = register_module("merge", torch::nn::Linear(size.width, size.width));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto split = [&](const torch::Tensor& part) {
      return part.unflatten(2, {heads, -1}).transpose(1, 2);
    };
    const std::vector<torch::Tensor> parts = project(x).chunk(3, 2);
    const torch::Tensor mixed = at::scaled_dot_product_attention(
        split(parts[0]), split(parts[1]), split(parts[2]), /*attn_mask=*/{}, /*dropout_p=*/0.0,
        /*is_causal=*/true);
    return merge(mixed.transpose(1, 2).flatten(2));
  }

  std::int64_t heads;
  torch::nn::Linear project{nullptr};
  torch::nn::Linear merge{nullptr};
};
TORCH_MODULE(Attention);

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Size& size) {
    const auto norm = torch::nn::LayerNormOptions({size.width});
    norm1 = register_module("norm1", torch::nn::LayerNorm(norm));
    norm2 = register_module("norm2", torch::nn::LayerNorm(norm));
    attention = register_module("attention", Attention(size));
    widen = register_module("widen", torch::nn::Linear(size.width, 4 * size.width));
    narrow = register_module("narrow", torch::nn::Linear(4 * size.width, size.width));
    dropout = register_module("dropout", torch::nn::Dropout(size.dropout));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + dropout(attention(norm1(x)));
    return x + dropout(narrow(torch::gelu(widen(norm2(x)))));
  }

  torch::nn::LayerNorm norm1{nullptr};
  torch::nn::LayerNorm norm2{nullptr};
  Attention attention{nullptr};
  torch::nn::Linear widen{nullptr};
  torch::nn::Linear narrow{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Block);

// Characters [B, T], of any integer dtype and T up to the context, to the logits of the next ones
// [B, T, characters].
struct GptImpl : torch::nn::Module {
  explicit GptImpl(const Size& size) {
    tokens = register_module("tokens", torch::nn::Embedding(size.characters, size.width));
    positions = register_module("positions", torch::nn::Embedding(size.context, size.width));
    for (std::int64_t i = 0; i < size.layers; ++i) blocks->push_back(Block(size));
    register_module("blocks", blocks);
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({size.width})));
    const torch::NoGradGuard no_grad;
    for (const torch::Tensor& parameter : {tokens->weight, positions->weight})
      parameter.normal_(0.0, 0.02);
  }

  // The weights of the tokens are those of the last layer, too.
  torch::Tensor forward(const torch::Tensor& characters) {
    const torch::Tensor places = torch::arange(
        characters.size(1), torch::TensorOptions(torch::kLong).device(characters.device()));
    torch::Tensor x = tokens(characters.to(torch::kLong)) + positions(places);
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return norm(x).matmul(tokens->weight.t());
  }

  torch::nn::Embedding tokens{nullptr};
  torch::nn::Embedding positions{nullptr};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Gpt);

}  // namespace char_gpt
