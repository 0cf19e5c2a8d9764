#include "tools/checkpoint/torch_archives.hpp"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/serialize/output-archive.h>

#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "checkpoint/file_system.hpp"
#include "core/scalar_type.hpp"
#include "kolo/error.h"
#include "tools/checkpoint/pickle.hpp"
#include "tools/checkpoint/pickle_writer.hpp"
#include "tools/checkpoint/state_dict.hpp"

namespace kolo::tools {
namespace {

using torch::serialize::OutputArchive;

// Limit on the tensors' bytes, as a multiple of the file's: tensors may share their storages.
constexpr std::uint64_t kMostShared = 16;

// Names as a tree: "conv1.weight" is the node "weight" in "conv1".
struct Node {
  std::map<std::string, Node> inner;
  at::Tensor tensor;
};

// Returns the node of a name, or null if the name lies within a tensor.
Node* find(Node& root, const std::string& name) {
  Node* node = &root;
  for (std::size_t at = 0; at != std::string::npos;) {
    if (node->tensor.defined()) return nullptr;
    const std::size_t dot = name.find('.', at);
    node = &node->inner[name.substr(at, dot - at)];
    at = dot == std::string::npos ? dot : dot + 1;
  }
  return node;
}

void write(const Node& node, OutputArchive& archive) {
  for (const auto& [key, child] : node.inner) {
    if (child.tensor.defined()) {
      archive.write(key, child.tensor);
      continue;
    }
    OutputArchive nested(archive.compilation_unit());
    write(child, nested);
    archive.write(key, nested);
  }
}

std::function<std::size_t(const void*, std::size_t)> collector(std::vector<unsigned char>& bytes) {
  return [&bytes](const void* data, std::size_t size) {
    const auto* from = static_cast<const unsigned char*>(data);
    bytes.insert(bytes.end(), from, from + size);
    return size;
  };
}

[[noreturn]] void refuse_name(const std::string& name) {
  throw InvalidArgumentError(
      "'" + name +
      "' cannot be a name in a module's archive, which is TorchScript: it has a part that "
      "TorchScript does not accept as a name, or conflicts with another tensor's name; without "
      "--module any name can be written");
}

// Whether a name has an empty part. Python reads such a name without its dots.
bool has_empty_part(const std::string& name) {
  return name.empty() || name.front() == '.' || name.back() == '.' ||
         name.find("..") != std::string::npos;
}

// Throws unless LibTorch reads back what was written into the archive: for some names it writes
// what it cannot read, or other names.
void check_module(const std::vector<unsigned char>& bytes, const Contents& contents) {
  std::set<std::string> names;
  try {
    std::istringstream stream(std::string(bytes.begin(), bytes.end()));
    const torch::jit::Module module = torch::jit::load(stream, at::kCPU);
    for (const auto& parameter : module.named_parameters()) names.insert(parameter.name);
    for (const auto& buffer : module.named_buffers()) names.insert(buffer.name);
  } catch (const std::exception&) {  // not all that TorchScript's parser throws is a c10::Error
    names.clear();
  }
  for (const NamedTensor& tensor : contents.tensors)
    if (names.count(tensor.name) == 0) refuse_name(tensor.name);
}

std::vector<unsigned char> record(caffe2::serialize::PyTorchStreamReader& archive,
                                  const std::string& name) {
  const auto [data, size] = archive.getRecord(name);
  const auto* from = static_cast<const unsigned char*>(data.get());
  return {from, from + size};
}

// Reads archives of LibTorch and of Python. LibTorch's own loader would run code from a TorchScript
// archive.
Contents read_archive(const std::string& path) {
  const std::uint64_t bytes = checkpoint::system_files().open_to_read(path)->size();
  caffe2::serialize::PyTorchStreamReader archive(path);
  if (archive.hasRecord("byteorder")) {
    const std::vector<unsigned char> order = record(archive, "byteorder");
    if (std::string(order.begin(), order.end()) != "little")
      throw DataError("it was written on a big-endian machine");
  }
  const std::vector<unsigned char> program = record(archive, "data.pkl");
  const Pickle pickle({reinterpret_cast<const char*>(program.data()), program.size()});
  return contents_of(
      pickle, [&](const std::string& key) { return record(archive, "data/" + key); },
      kMostShared * bytes);
}

}  // namespace

Contents read_torch(const std::string& path) {
  Contents contents;
  try {
    contents = read_archive(path);
  } catch (const c10::Error& error) {
    const std::string all = error.what_without_backtrace();
    throw DataError(path + " is neither an archive of torch::save nor of Python's torch.save: " +
                    all.substr(0, all.find('\n')));
  } catch (const DataError& error) {
    throw DataError(path + ": " + error.what());
  }
  if (contents.tensors.empty()) {
    throw DataError(path +
                    " has no named tensors; if Python has saved a whole module, or code makes the "
                    "module's state, save its state_dict() instead");
  }
  return contents;
}

void write_state_dict(const std::string& path, const Contents& contents) {
  std::vector<std::vector<unsigned char>> parts(1);
  caffe2::serialize::PyTorchStreamWriter archive(collector(parts[0]));
  const auto record = [&](const std::string& name, const void* data, std::size_t size) {
    archive.writeRecord(name, data, size);
  };
  const std::string pickle = pickle_of(contents);
  record("data.pkl", pickle.data(), pickle.size());
  record("byteorder", "little", 6);
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    const std::vector<unsigned char>& bytes = contents.tensors[i].bytes;
    record("data/" + std::to_string(i), bytes.data(), bytes.size());
  }
  archive.writeEndOfFile();
  write_file(path, parts);
}

void write_module(const std::string& path, const Contents& contents) {
  Node root;
  for (const NamedTensor& tensor : contents.tensors) {
    Node* const node = find(root, tensor.name);
    if (has_empty_part(tensor.name) || node == nullptr || node->tensor.defined() ||
        !node->inner.empty())
      refuse_name(tensor.name);
    node->tensor = at::empty(tensor.shape, at::TensorOptions().dtype(scalar_type(tensor.type)));
    if (!tensor.bytes.empty())
      std::memcpy(node->tensor.data_ptr(), tensor.bytes.data(), tensor.bytes.size());
  }
  const auto modules = contents.notes.find(kModulesNote);
  if (modules != contents.notes.end()) {
    std::istringstream lines(modules->second);
    for (std::string line; std::getline(lines, line);) find(root, line);
  }
  std::vector<std::vector<unsigned char>> parts(1);
  OutputArchive archive;
  write(root, archive);
  archive.save_to(collector(parts[0]));
  check_module(parts[0], contents);
  write_file(path, parts);
}

}  // namespace kolo::tools
