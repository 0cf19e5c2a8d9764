// What is saved and restored is made of components: a module, an optimizer, a number, ... A
// component says what it has, and takes what it is given; it knows neither files nor other ranks.
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

// How a tensor is spread over the ranks.
struct Spread {
  Kind kind = Kind::kTensor;
  // Of the whole tensor, with the part that is this rank's; none: all ranks have all of it. For
  // kPerRank the tensor is the part, and these are not looked at.
  std::optional<Box> part;
  std::vector<std::int64_t> shape;
};

// What this rank has to save.
class Capture {
 public:
  struct Item {
    std::string name;
    at::Tensor tensor;
    Spread spread;
  };

  void tensor(const std::string& name, const at::Tensor& tensor, Spread spread = {});
  // A second name of a tensor of the same component.
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

// What a component wants of a file. First it says so; when all has been read it is called back:
// first what may still refuse, then the rest. Nothing else of the program changes before.
class Request {
 public:
  Request(const Table& table, int rank);

  // Whether the file has a tensor or value of that name.
  bool has(const std::string& name) const;
  // A tensor, by one of its names.
  const TensorEntry* find(const std::string& name) const;
  const Value* find_value(const std::string& name) const;
  // The next parts of all names that begin with `folder` + '/'.
  std::vector<std::string> names_in(const std::string& folder) const;

  // The tensor is read into `into`, if it is there and fits: else it is noted as missing or
  // mismatched, and false is returned. Of what each rank has one, nothing is read if this rank was
  // not there.
  // `is_early`: a part of what first() needs; `into` is no tensor of the program's.
  bool tensor(const std::string& name, const at::Tensor& into, const Spread& spread = {},
              bool is_early = false);
  bool value(const std::string& name, const std::function<void(const Value&)>& apply);
  bool text(const std::string& name, const std::function<void(const std::string&)>& apply);
  bool bytes(const std::string& name, Kind kind,
             const std::function<void(const std::string&)>& apply);
  // A value of this type alone; of another one it is noted as mismatched.
  template <typename T>
  bool value_of(const std::string& name, const std::function<void(const T&)>& apply) {
    const Value* found = find_value(name);
    if (found != nullptr && !std::holds_alternative<T>(*found)) {
      mismatched(name, "a value of another type");
      return false;
    }
    return value(name, [apply](const Value& given) { apply(std::get<T>(given)); });
  }
  // Nothing of this name, or in this folder, is wanted.
  void pass_over(const std::string& name);
  void missing(const std::string& name) { missing_.push_back(name); }
  void mismatched(const std::string& name, const std::string& how);
  // Called when everything has been read.
  void first(std::function<void()> apply) {
    if (!mute_) first_.push_back(std::move(apply));
  }
  void then(std::function<void()> apply) {
    if (!mute_) then_.push_back(std::move(apply));
  }
  // While it holds, what is asked for is read and nothing is applied: for a rank that has no row of
  // what each rank has one, and takes part in delivering it to the others.
  void mute(bool mute) { mute_ = mute; }
  // Whether this rank has a row of what is in the folder; true where all ranks have the same.
  bool has_own(const std::string& folder) const;

  struct Wanted {
    std::size_t tensor = 0;   // index in the table
    at::Tensor into;          // undefined: nothing, on this rank
    std::optional<Box> part;  // of what is in the file; none: all of it
    bool is_spread = false;   // ranks want different parts
    bool is_early = false;    // before first() is called
  };
  const std::vector<Wanted>& wanted() const { return wanted_; }
  void apply_first() const;
  void apply_rest() const;
  // What ranks must have in common, for delivering is collective.
  std::vector<std::string> listing() const;

  const std::vector<std::string>& missing() const { return missing_; }
  const std::vector<std::string>& mismatched() const { return mismatched_; }
  // What is in the file under the folder of a component and was not asked for.
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
