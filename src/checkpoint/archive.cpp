// Takes LibTorch's archives apart, so that their contents have names in the file.
#include <ATen/ATen.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include "checkpoint/components.hpp"
#include "core/scalar_type.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

std::string below(const std::string& folder, const std::string& key) {
  return folder + "/" + join_name({key});
}

constexpr int kDeepest = 8;

// Returns whether the whole archive can be taken apart. An archive without keys would leave no
// trace.
bool can_be_apart(InputArchive& archive, int depth) {
  if (depth > kDeepest) return false;
  const std::vector<std::string> keys = archive.keys();
  for (const std::string& key : keys) {
    c10::IValue value;
    archive.read(key, value);
    if (value.isObject()) {
      InputArchive inner;
      archive.read(key, inner);
      if (!can_be_apart(inner, depth + 1)) return false;
      continue;
    }
    const bool is_known =
        value.isInt() || value.isBool() || value.isDouble() ||
        (value.isString() && can_be_value(value.toStringRef())) ||
        (value.isTensor() && value.toTensor().defined() &&
         value.toTensor().layout() == at::kStrided && element_type(value.toTensor().scalar_type()));
    if (!is_known) return false;
  }
  return !keys.empty();
}

void take_apart(Capture& capture, const std::string& folder, InputArchive& archive) {
  for (const std::string& key : archive.keys()) {
    const std::string name = below(folder, key);
    c10::IValue value;
    archive.read(key, value);
    if (value.isObject()) {
      InputArchive inner;
      archive.read(key, inner);
      take_apart(capture, name, inner);
    } else if (value.isTensor()) {
      capture.tensor(name, value.toTensor(), of_rank_zero());
    } else if (value.isInt()) {
      capture.value(name, value.toInt());
    } else if (value.isBool()) {
      capture.value(name, value.toBool());
    } else if (value.isDouble()) {
      capture.value(name, value.toDouble());
    } else {
      capture.value(name, value.toStringRef());
    }
  }
}

c10::IValue as_ivalue(const Value& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  throw DataError("checkpoint: a list where an archive has none");
}

// Builds a part of an archive. first() and then() may run in any order across archives, so the
// parts are put together only after everything has been read.
using Part = std::function<void(OutputArchive&)>;

std::vector<Part> request_parts(Request& request, const std::string& folder) {
  std::vector<Part> parts;
  for (const std::string& part : request.names_in(folder)) {
    std::string name = folder;
    name.append("/").append(part);
    const std::string key = split_name(part)[0];
    if (const TensorEntry* entry = request.find(name)) {
      const at::Tensor into = at::empty(entry->shape, scalar_type(entry->type));
      if (request.tensor(name, into, {entry->kind, std::nullopt, {}}, true))
        parts.push_back([key, into](OutputArchive& archive) { archive.write(key, into); });
    } else if (const Value* value = request.find_value(name)) {
      request.value(name, [](const Value&) {});
      parts.push_back(
          [key, copy = as_ivalue(*value)](OutputArchive& archive) { archive.write(key, copy); });
    } else {
      parts.push_back([key, inner = request_parts(request, name)](OutputArchive& archive) {
        OutputArchive nested(archive.compilation_unit());
        for (const Part& write : inner) write(nested);
        archive.write(key, nested);
      });
    }
  }
  return parts;
}

}  // namespace

void capture_archive(Capture& capture, const std::string& name, const detail::Save& save) {
  const std::string bytes = detail::to_archive(save);
  detail::from_archive(bytes, [&](InputArchive& archive) {
    if (can_be_apart(archive, 1)) {
      take_apart(capture, name, archive);
    } else {
      capture.bytes(name, bytes, Kind::kArchive);
    }
  });
}

void restore_archive(Request& request, const std::string& name, const detail::Load& load) {
  const std::vector<std::string> keys = request.names_in(name);
  if (keys.empty()) {
    request.bytes(name, Kind::kArchive,
                  [load](const std::string& bytes) { detail::from_archive(bytes, load); });
    return;
  }
  request.first([parts = request_parts(request, name), load] {
    const std::string bytes = detail::to_archive([&](OutputArchive& archive) {
      for (const Part& write : parts) write(archive);
    });
    detail::from_archive(bytes, load);
  });
}

namespace {

class ArchiveComponent : public Component {
 public:
  ArchiveComponent(const std::string& name, detail::Save save, detail::Load load)
      : Component(name), save_(std::move(save)), load_(std::move(load)) {}

  void capture(Capture& capture) const override { capture_archive(capture, inside({}), save_); }
  void restore(Request& request) override { restore_archive(request, inside({}), load_); }

 private:
  const detail::Save save_;
  const detail::Load load_;
};

}  // namespace

Added archive_component(const std::string& name, detail::Save save, detail::Load load) {
  return std::make_unique<ArchiveComponent>(name, std::move(save), std::move(load));
}

}  // namespace kolo::checkpoint
