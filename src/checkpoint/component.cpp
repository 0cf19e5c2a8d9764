#include "checkpoint/component.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "core/scalar_type.hpp"
#include "core/types.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

at::Tensor tensor_of(const std::string& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string described(ElementType type, const std::vector<std::int64_t>& shape) {
  return std::string(name_of(type)) + to_string(shape);
}

}  // namespace

std::string Component::inside(const std::vector<std::string>& parts) const {
  std::vector<std::string> all = {name_};
  all.insert(all.end(), parts.begin(), parts.end());
  return join_name(all);
}

// --- Capture ---

void Capture::tensor(const std::string& name, const at::Tensor& tensor, Spread spread) {
  if (!tensor.defined())
    throw InvalidArgumentError("checkpoint: the tensor '" + name + "' is undefined");
  if (tensor.layout() != at::kStrided) {
    throw InvalidArgumentError("checkpoint: the tensor '" + name +
                               "' is sparse; add its indices and values");
  }
  if (!element_type(tensor.scalar_type())) {
    throw InvalidArgumentError("checkpoint: the tensor '" + name + "' is of dtype " +
                               c10::toString(tensor.scalar_type()) +
                               ", which checkpoints do not have");
  }
  items_.push_back({name, tensor.detach(), std::move(spread)});
}

void Capture::alias(const std::string& name, const std::string& of) {
  value(name, of);
}

void Capture::value(const std::string& name, Value value) {
  values_[name] = std::move(value);
}

void Capture::text(const std::string& name, const std::string& text) {
  if (can_be_value(text)) return value(name, text);
  bytes(name, text, Kind::kText);
}

void Capture::bytes(const std::string& name, const std::string& bytes, Kind kind) {
  items_.push_back({name, tensor_of(bytes), {kind, std::nullopt, {}}});
}

// --- Request ---

Request::Request(const Table& table, int rank) : table_(table), rank_(rank) {
  for (std::size_t i = 0; i < table.tensors.size(); ++i) tensors_[table.tensors[i].name] = i;
}

bool Request::has(const std::string& name) const {
  return find(name) != nullptr || find_value(name) != nullptr;
}

const TensorEntry* Request::find(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end())
    if (const std::optional<std::string> of = table_.alias(name)) found = tensors_.find(*of);
  return found == tensors_.end() ? nullptr : &table_.tensors[found->second];
}

const Value* Request::find_value(const std::string& name) const {
  const auto found = table_.values.find(name);
  return found == table_.values.end() ? nullptr : &found->second;
}

std::vector<std::string> Request::names_in(const std::string& folder) const {
  std::set<std::string> names;
  const std::string begin = folder + "/";
  const auto collect = [&](const auto& map) {
    for (auto at = map.lower_bound(begin); at != map.end() && at->first.starts_with(begin); ++at) {
      names.insert(
          at->first.substr(begin.size(), at->first.find('/', begin.size()) - begin.size()));
    }
  };
  collect(tensors_);
  collect(table_.values);
  return {names.begin(), names.end()};
}

void Request::pass_over(const std::string& name) {
  for (const std::string& one : unexpected(name)) asked_.insert(one);
}

void Request::mismatched(const std::string& name, const std::string& how) {
  asked_.insert(name);
  mismatched_.push_back(name + " (" + how + ")");
}

const TensorEntry* Request::take(const std::string& name) {
  asked_.insert(name);
  const TensorEntry* entry = find(name);
  if (entry == nullptr) missing_.push_back(name);
  return entry;
}

bool Request::fits(const std::string& name, const TensorEntry& entry, const at::Tensor& into,
                   const Spread& spread) {
  std::vector<std::int64_t> shape = spread.part ? spread.shape : into.sizes().vec();
  std::vector<std::int64_t> stored = entry.shape;
  const bool same_kind = (entry.kind == Kind::kPerRank) == (spread.kind == Kind::kPerRank);
  if (same_kind && entry.kind == Kind::kPerRank && !stored.empty()) stored.erase(stored.begin());
  const std::optional<ElementType> type = element_type(into.scalar_type());
  if (same_kind && stored == shape && type == entry.type) return true;
  mismatched(name,
             "the file has " + described(entry.type, stored) +
                 (entry.kind == Kind::kPerRank ? " for each rank" : "") + ", the program " +
                 (type ? described(*type, shape) : std::string(c10::toString(into.scalar_type()))) +
                 (spread.kind == Kind::kPerRank ? " for each rank" : ""));
  return false;
}

bool Request::tensor(const std::string& name, const at::Tensor& into, const Spread& spread,
                     bool is_early) {
  const TensorEntry* entry = take(name);
  if (entry == nullptr || !fits(name, *entry, into, spread)) return false;
  Wanted wanted{static_cast<std::size_t>(entry - table_.tensors.data()), into.detach(), spread.part,
                spread.part.has_value(), is_early};
  if (spread.kind == Kind::kPerRank) {
    wanted.is_spread = true;
    if (rank_ >= entry->shape[0]) {
      wanted.into = at::Tensor();
    } else {
      wanted.part = whole(entry->shape);
      wanted.part->start[0] = rank_;
      wanted.part->extent[0] = 1;
    }
  }
  wanted_.push_back(std::move(wanted));
  return true;
}

bool Request::value(const std::string& name, const std::function<void(const Value&)>& apply) {
  asked_.insert(name);
  const Value* found = find_value(name);
  if (found == nullptr) {
    missing_.push_back(name);
    return false;
  }
  then([apply, value = *found] { apply(value); });
  return true;
}

bool Request::text(const std::string& name, const std::function<void(const std::string&)>& apply) {
  const Value* found = find_value(name);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(found);
  if (text == nullptr) return bytes(name, Kind::kText, apply);
  asked_.insert(name);
  then([apply, value = *text] { apply(value); });
  return true;
}

bool Request::bytes(const std::string& name, Kind kind,
                    const std::function<void(const std::string&)>& apply) {
  const TensorEntry* entry = take(name);
  if (entry == nullptr) return false;
  if (entry->kind != kind || entry->type != ElementType::kUint8 || entry->shape.size() != 1) {
    mismatched(name,
               "the file has " + described(entry->type, entry->shape) +
                   (kind == Kind::kText ? ", the program a text" : ", the program an archive"));
    return false;
  }
  const at::Tensor into = at::empty(entry->shape, at::kByte);
  const auto index = static_cast<std::size_t>(entry - table_.tensors.data());
  wanted_.push_back({index, into, std::nullopt, false, true});
  auto deliver = [apply, into] {
    apply(std::string(static_cast<const char*>(into.const_data_ptr()),
                      static_cast<std::size_t>(into.numel())));
  };
  if (kind == Kind::kText) {
    then(std::move(deliver));
  } else {
    first(std::move(deliver));  // may refuse
  }
  return true;
}

bool Request::has_own(const std::string& folder) const {
  const std::string begin = folder + "/";
  for (auto at = tensors_.lower_bound(begin); at != tensors_.end() && at->first.starts_with(begin);
       ++at) {
    const TensorEntry& entry = table_.tensors[at->second];
    if (entry.kind == Kind::kPerRank && !entry.shape.empty()) return rank_ < entry.shape[0];
  }
  return true;
}

void Request::apply_first() const {
  for (const auto& call : first_) call();
}

void Request::apply_rest() const {
  for (const auto& call : then_) call();
}

std::vector<std::string> Request::listing() const {
  std::vector<std::string> lines;
  lines.reserve(wanted_.size());
  for (const Wanted& wanted : wanted_) {
    lines.push_back(table_.tensors[wanted.tensor].name);
    lines.back() += wanted.is_spread ? " in parts" : "";
  }
  return lines;
}

std::vector<std::string> Request::unexpected(const std::string& component) const {
  std::vector<std::string> names;
  const auto collect = [&](const auto& map) {
    for (auto at = map.lower_bound(component); at != map.end(); ++at) {
      const std::string& name = at->first;
      if (!name.starts_with(component)) break;
      const bool is_its = name.size() == component.size() || name[component.size()] == '/';
      if (is_its && asked_.count(name) == 0) names.push_back(name);
    }
  };
  collect(tensors_);
  collect(table_.values);
  return names;
}

}  // namespace kolo::checkpoint
