// A checkpoint is made of components: a module, an optimizer, a number, ... A component lists what
// it saves, and accepts what is restored; it knows neither files nor other ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/box.hpp"
#include "checkpoint/table.hpp"

namespace kolo::checkpoint {

// Says how a tensor is spread over the ranks.
struct Spread {
  Kind kind = Kind::kTensor;
  // This rank's part of the tensor, and the shape of the whole tensor. Without a part, every rank
  // has the whole tensor. For kPerRank the tensor itself is the part, and both fields are ignored.
  std::optional<Box> part;
  std::vector<std::int64_t> shape;
  // Every rank has the whole tensor, but not surely with the same values. Rank 0's are saved.
  bool is_rank_zeros = false;
};

inline Spread of_rank_zero() {
  return {Kind::kTensor, std::nullopt, {}, true};
}

// Collects what this rank has to save.
class Capture {
 public:
  struct Item {
    std::string name;
    at::Tensor tensor;
    Spread spread;
  };

  void tensor(const std::string& name, const at::Tensor& tensor, Spread spread = {});
  // A second name for a tensor of the same component.
  void alias(const std::string& name, const std::string& of);
  void value(const std::string& name, Value value);
  void text(const std::string& name, const std::string& text);  // of any length
  void bytes(const std::string& name, const std::string& bytes, Kind kind);

  const std::vector<Item>& items() const { return items_; }
  const std::map<std::string, Value>& values() const { return values_; }

 private:
  std::vector<Item> items_;
  std::map<std::string, Value> values_;
};

// Collects what a component wants from a file. The component first registers what it wants, and is
// called back when everything has been read: first the callbacks that may still refuse, then the
// rest. Until then nothing else in the program changes.
class Request {
 public:
  Request(const Table& table, int rank);

  // Whether the file has a tensor or value with that name.
  bool has(const std::string& name) const;
  // Returns a tensor by any of its names, or null.
  const TensorEntry* find(const std::string& name) const;
  const Value* find_value(const std::string& name) const;
  // Returns the next name parts of all names that begin with `folder` + '/'.
  std::vector<std::string> names_in(const std::string& folder) const;

  // Reads the tensor into `into`. If it is absent or does not fit, notes it as missing or
  // mismatched, and returns false. From a tensor with one row per rank nothing is read if the file
  // has no row for this rank. `is_early`: first() needs the tensor; `into` does not belong to the
  // program.
  bool tensor(const std::string& name, const at::Tensor& into, const Spread& spread = {},
              bool is_early = false);
  bool value(const std::string& name, const std::function<void(const Value&)>& apply);
  bool text(const std::string& name, const std::function<void(const std::string&)>& apply);
  bool bytes(const std::string& name, Kind kind,
             const std::function<void(const std::string&)>& apply);
  // Accepts a value of this type only; notes a value of another type as mismatched.
  template <typename T>
  bool value_of(const std::string& name, const std::function<void(const T&)>& apply) {
    const Value* found = find_value(name);
    if (found != nullptr && !std::holds_alternative<T>(*found)) {
      mismatched(name, "a value of another type");
      return false;
    }
    return value(name, [apply](const Value& given) { apply(std::get<T>(given)); });
  }
  // Ignores this name, or everything in this folder, without reporting it as unexpected.
  void pass_over(const std::string& name);
  void missing(const std::string& name) { missing_.push_back(name); }
  void mismatched(const std::string& name, const std::string& how);
  // Register callbacks that run when everything has been read.
  void first(std::function<void()> apply) {
    if (!mute_) first_.push_back(std::move(apply));
  }
  void then(std::function<void()> apply) {
    if (!mute_) then_.push_back(std::move(apply));
  }
  // While muted, requests are read but not applied. Serves a rank for which the file has no row of
  // its own, but which takes part in delivering rows to other ranks.
  void mute(bool mute) { mute_ = mute; }
  // Whether the file has a row for this rank in the folder; true if all ranks share the same data.
  bool has_own(const std::string& folder) const;

  struct Wanted {
    std::size_t tensor = 0;   // index in the table
    at::Tensor into;          // undefined if this rank takes nothing
    std::optional<Box> part;  // of the tensor in the file; without a value, all of it
    bool is_spread = false;   // ranks want different parts
    bool is_early = false;    // before first() is called
  };
  const std::vector<Wanted>& wanted() const { return wanted_; }
  void apply_first() const;
  void apply_rest() const;
  // Returns what must be the same on all ranks, because delivering is collective.
  std::vector<std::string> listing() const;

  const std::vector<std::string>& missing() const { return missing_; }
  const std::vector<std::string>& mismatched() const { return mismatched_; }
  // Returns what the file has in the component's folder but nobody asked for.
  std::vector<std::string> unexpected(const std::string& component) const;

 private:
  const TensorEntry* take(const std::string& name);
  bool fits(const std::string& name, const TensorEntry& entry, const at::Tensor& into,
            const Spread& spread);

  const Table& table_;  // outlives the request
  const int rank_;
  std::map<std::string, std::size_t> tensors_;
  std::set<std::string> asked_;
  std::vector<Wanted> wanted_;
  std::vector<std::function<void()>> first_, then_;
  bool mute_ = false;
  std::vector<std::string> missing_, mismatched_;
};

class Component {
 public:
  explicit Component(std::string name) : name_(std::move(name)) {}
  virtual ~Component() = default;
  Component(const Component&) = delete;
  Component& operator=(const Component&) = delete;

  const std::string& name() const { return name_; }
  virtual void capture(Capture& capture) const = 0;
  virtual void restore(Request& request) = 0;

 protected:
  std::string inside(const std::vector<std::string>& parts) const;

 private:
  const std::string name_;
};

}  // namespace kolo::checkpoint
