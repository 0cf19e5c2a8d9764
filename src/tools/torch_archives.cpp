#include "tools/torch_archives.hpp"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <cstring>
#include <map>
#include <memory>
#include <sstream>

#include "checkpoint/component.hpp"
#include "checkpoint/file_system.hpp"
#include "kolo/error.h"
#include "tools/pickle.hpp"
#include "tools/state_dict.hpp"

namespace kolo::tools {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// How often tensors may share their storages, on the average.
constexpr std::uint64_t kMostShared = 16;

std::string joined(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : prefix + "." + key;
}

void take(const std::string& name, const c10::IValue& value, Contents& contents) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return;
    if (tensor.layout() != at::kStrided) return contents.left_out.push_back(name);
    const auto type = checkpoint::element_type(tensor.scalar_type());
    if (!type) {
      throw DataError("'" + name + "' has dtype " + c10::toString(tensor.scalar_type()) +
                      ", which checkpoints do not have");
    }
    const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
    const auto* bytes = static_cast<const unsigned char*>(host.const_data_ptr());
    contents.tensors.push_back({name, *type, host.sizes().vec(),
                                std::vector<unsigned char>(bytes, bytes + host.nbytes())});
  } else if (value.isString()) {
    contents.notes[name] = value.toStringRef();
  } else if (value.isInt()) {
    contents.notes[name] = std::to_string(value.toInt());
  } else if (value.isBool()) {
    contents.notes[name] = value.toBool() ? "true" : "false";
  } else if (value.isDouble()) {
    contents.notes[name] = note_of(value.toDouble());
  } else if (!value.isNone()) {
    contents.left_out.push_back(name);
  }
}

void take(const std::string& prefix, InputArchive& archive, Contents& contents) {
  for (const std::string& key : archive.keys()) {
    c10::IValue value;
    archive.read(key, value);
    if (value.isObject()) {
      InputArchive inner;
      archive.read(key, inner);
      take(joined(prefix, key), inner, contents);
    } else {
      take(joined(prefix, key), value, contents);
    }
  }
}

// Names as a tree: "conv1.weight" is "weight" in "conv1".
struct Node {
  std::map<std::string, Node> inner;
  at::Tensor tensor;
};

// The node of a name; nothing if that is within a tensor.
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

std::vector<unsigned char> record(caffe2::serialize::PyTorchStreamReader& archive,
                                  const std::string& name) {
  const auto [data, size] = archive.getRecord(name);
  const auto* from = static_cast<const unsigned char*>(data.get());
  return {from, from + size};
}

// Whether LibTorch wrote it, whose archives have a module's code. Throws DataError where that would
// run.
bool has_code(caffe2::serialize::PyTorchStreamReader& archive) {
  bool has = false;
  for (const std::string& name : archive.getAllRecords()) {
    if (!name.starts_with("code/")) continue;
    has = true;
    const std::vector<unsigned char> bytes = record(archive, name);
    if (std::string(bytes.begin(), bytes.end()).find("__setstate__") != std::string::npos)
      throw DataError("it has code that would run when it is loaded; save its parameters alone");
  }
  return has;
}

// What Python's torch.save wrote.
Contents read_python(caffe2::serialize::PyTorchStreamReader& archive, std::uint64_t file_bytes) {
  if (archive.hasRecord("byteorder")) {
    const std::vector<unsigned char> order = record(archive, "byteorder");
    if (std::string(order.begin(), order.end()) != "little")
      throw DataError("it was written on a big-endian machine");
  }
  const std::vector<unsigned char> program = record(archive, "data.pkl");
  const Pickle pickle({reinterpret_cast<const char*>(program.data()), program.size()});
  return contents_of(
      pickle, [&](const std::string& key) { return record(archive, "data/" + key); },
      kMostShared * file_bytes);
}

Contents read_archive(const std::string& path) {
  const std::uint64_t bytes = checkpoint::system_files().open_to_read(path)->size();
  caffe2::serialize::PyTorchStreamReader archive(path);
  if (!has_code(archive)) return read_python(archive, bytes);
  Contents contents;
  InputArchive module;
  module.load_from(path);
  take("", module, contents);
  return contents;
}

}  // namespace

Contents read_torch(const std::string& path) {
  Contents contents;
  try {
    contents = read_archive(path);
  } catch (const c10::Error& error) {
    const std::string all = error.what_without_backtrace();
    throw DataError(path + " is no archive of torch::save, nor of Python's torch.save: " +
                    all.substr(0, all.find('\n')));
  } catch (const DataError& error) {
    throw DataError(path + ": " + error.what());
  }
  if (contents.tensors.empty()) {
    throw DataError(path +
                    " has no tensors by name; of a whole module that Python has saved, save "
                    "its state_dict()");
  }
  return contents;
}

void write_torch(const std::string& path, const Contents& contents) {
  Node root;
  for (const NamedTensor& tensor : contents.tensors) {
    Node* const node = find(root, tensor.name);
    if (node == nullptr || node->tensor.defined() || !node->inner.empty()) {
      throw InvalidArgumentError("'" + tensor.name +
                                 "' is within another tensor's name, or holds one");
    }
    node->tensor =
        at::empty(tensor.shape, at::TensorOptions().dtype(checkpoint::scalar_type(tensor.type)));
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
  archive.save_to([&](const void* data, std::size_t size) {
    const auto* from = static_cast<const unsigned char*>(data);
    parts[0].insert(parts[0].end(), from, from + size);
    return size;
  });
  write_file(path, parts);
}

}  // namespace kolo::tools
