#include "kolo/objects.h"

#include <ATen/ATen.h>
#include <c10/util/Type.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <cstring>
#include <sstream>

#include "torch_ops/ops/handle_state.hpp"

namespace kolo {
namespace {

at::Tensor tensor_of(const std::string& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

// `root` and `content` must be the same on every rank.
std::vector<std::string> gather(const Call& call, const std::string& bytes, int root,
                                const std::string& content) {
  const auto gathered = std::make_shared<Gathered>();
  std::shared_ptr<Operation> operation = make_allgather(call, {tensor_of(bytes)}, gathered);
  operation->descriptor.root = root;
  operation->descriptor.content = content;
  run(call, std::move(operation), at::Tensor());
  std::vector<std::string> all;
  const auto* at = static_cast<const char*>(gathered->tensors[0].const_data_ptr());
  for (const std::int64_t length : gathered->rows[0]) {
    all.emplace_back(at, static_cast<std::size_t>(length));
    at += length;
  }
  return all;
}

}  // namespace

namespace detail {

// Runs an allgather to which only the root contributes, so the size needs no separate message.
std::string broadcast_bytes(const Encode& encode, int root_rank, const OperationOptions& options,
                            const std::string& agreed) {
  const Call call("broadcast_object", "broadcast_object", OpKind::kAllgather, options);
  int root = 0;
  const std::string mine = call.or_give_up([&] {
    root = call.root_in_set(root_rank);
    return root == call.rank() ? encode() : std::string();
  });
  std::vector<std::string> all =
      gather(call, mine, root_rank, agreed.empty() ? "an object of one rank" : agreed);
  if (!all[static_cast<std::size_t>(root)].empty())
    return std::move(all[static_cast<std::size_t>(root)]);
  throw MismatchError(call.what() + ": its root, rank " + std::to_string(root_rank) +
                      ", has joined and gives nothing");
}

std::vector<std::string> allgather_bytes(const Encode& encode, const OperationOptions& options) {
  const Call call("allgather_object", "allgather_object", OpKind::kAllgather, options);
  return gather(call, call.or_give_up(encode), 0, "an object of each rank");
}

std::string to_archive(const Save& save) {
  try {
    torch::serialize::OutputArchive archive;
    save(archive);
    std::ostringstream stream;
    archive.save_to(stream);
    return stream.str();
  } catch (const c10::Error& error) {
    throw InvalidArgumentError(std::string("LibTorch cannot save the object: ") +
                               error.what_without_backtrace());
  }
}

void from_archive(const std::string& bytes, const Load& load) {
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(bytes.data(), bytes.size());
    load(archive);
  } catch (const c10::Error& error) {
    throw DataError(std::string("an archive that cannot be loaded: ") +
                    error.what_without_backtrace());
  }
}

std::string type_name(const std::type_info& type) {
  static const std::string string = c10::demangle(typeid(std::string).name());
  std::string name = c10::demangle(type.name());
  for (std::size_t at = 0; (at = name.find(string, at)) != std::string::npos;)
    name.replace(at, string.size(), "std::string");
  return name;
}

std::string join_pieces(const std::vector<std::string>& pieces) {
  std::string bytes;
  for (const std::string& piece : pieces) {
    const std::uint64_t length = piece.size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += piece;
  }
  return bytes;
}

std::vector<std::string> split_pieces(const std::string& bytes) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    if (bytes.size() - at < sizeof length) throw DataError("an object that was cut off");
    std::memcpy(&length, bytes.data() + at, sizeof length);
    at += sizeof length;
    if (length > bytes.size() - at) throw DataError("an object that was cut off");
    pieces.push_back(bytes.substr(at, length));
    at += length;
  }
  return pieces;
}

}  // namespace detail

std::string Codec<c10::IValue>::encode(const c10::IValue& value) {
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  return {bytes.begin(), bytes.end()};
}

c10::IValue Codec<c10::IValue>::decode(const std::string& bytes) {
  try {
    return torch::jit::pickle_load({bytes.begin(), bytes.end()});
  } catch (const c10::Error& error) {
    throw DataError(std::string("bytes that are no IValue: ") + error.what_without_backtrace());
  }
}

std::string Codec<at::Tensor>::encode(const at::Tensor& tensor) {
  return Codec<c10::IValue>::encode(tensor.defined() ? tensor.detach() : tensor);
}

at::Tensor Codec<at::Tensor>::decode(const std::string& bytes) {
  const c10::IValue value = Codec<c10::IValue>::decode(bytes);
  if (value.isTensor()) return value.toTensor();
  throw DataError("an object that is no tensor");
}

}  // namespace kolo
