#include "tools/checkpoint/state_dict.hpp"

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

using Kind = Pickled::Kind;
using Items = std::vector<const Pickled*>;

// Limits that programs do not reach. A value may be shared and contain itself, so a short pickle
// may have endless names.
constexpr int kDeepest = 64;
constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kMostValues = 2'000'000;
constexpr std::size_t kListedAsOne = 64;  // skipped numbers that count as one value
constexpr std::size_t kMostNoteBytes = std::size_t{64} << 20;
constexpr std::size_t kLongestName = 1024;

// Returns element types by the storage classes that torch.save writes.
const std::map<std::string, ElementType>& storage_types() {
  static const std::map<std::string, ElementType> types = {
      {"torch.BoolStorage", ElementType::kBool},
      {"torch.ByteStorage", ElementType::kUint8},
      {"torch.CharStorage", ElementType::kInt8},
      {"torch.ShortStorage", ElementType::kInt16},
      {"torch.IntStorage", ElementType::kInt32},
      {"torch.LongStorage", ElementType::kInt64},
      {"torch.HalfStorage", ElementType::kFloat16},
      {"torch.BFloat16Storage", ElementType::kBfloat16},
      {"torch.FloatStorage", ElementType::kFloat32},
      {"torch.DoubleStorage", ElementType::kFloat64},
      {"torch.ComplexFloatStorage", ElementType::kComplex64},
      {"torch.ComplexDoubleStorage", ElementType::kComplex128},
  };
  return types;
}

// A view of a storage, in elements.
struct View {
  std::uint64_t offset = 0;
  std::vector<std::int64_t> shape, strides;
};

// Copies element by element, the last dimension in the innermost loop.
void gather(const View& view, std::size_t item_bytes, const unsigned char* from, unsigned char*& to,
            std::size_t dimension) {
  if (dimension == view.shape.size()) {
    std::memcpy(to, from, item_bytes);
    to += item_bytes;
    return;
  }
  const std::uint64_t step = static_cast<std::uint64_t>(view.strides[dimension]) * item_bytes;
  for (std::int64_t i = 0; i < view.shape[dimension]; ++i)
    gather(view, item_bytes, from + static_cast<std::uint64_t>(i) * step, to, dimension + 1);
}

bool is_contiguous(const View& view) {
  std::int64_t expected = 1;
  for (std::size_t d = view.shape.size(); d-- > 0;) {
    if (view.shape[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

class Taker {
 public:
  Taker(const ReadStorage& read_storage, std::uint64_t most_bytes)
      : read_storage_(read_storage), bytes_left_(most_bytes) {}

  void take(const std::string& path, const Pickled& value, int depth) {
    count(path, depth);
    switch (value.kind) {
      case Kind::kNone:
        break;
      case Kind::kText:
        note(path, value.text);
        break;
      case Kind::kBool:
        note(path, value.integer != 0 ? "true" : "false");
        break;
      case Kind::kInteger:
        note(path, std::to_string(value.integer));
        break;
      case Kind::kFloat:
        note(path, note_of(value.number));
        break;
      case Kind::kObject:
        take_object(path, value, depth);
        break;
      case Kind::kDict:
        for (std::size_t i = 0; i < value.items.size(); i += 2)
          take_entry(path, *value.items[i], *value.items[i + 1], depth);
        break;
      case Kind::kTuple:
      case Kind::kList:
        take_list(path, value.items, depth);
        break;
      case Kind::kCall:
        take_call(path, *value.items[0], value.items[1]->items, depth);
        break;
      case Kind::kGlobal:
      case Kind::kPersistent:
      case Kind::kOther:
        leave_out(path);
    }
  }

  Contents contents() && { return std::move(contents_); }

 private:
  void count(const std::string& path, int depth) {
    if (depth > kDeepest || ++values_ > kMostValues || path.size() > kLongestName) {
      throw DataError("'" + name_of(path).substr(0, kLongestName) +
                      "' is nested too deeply, has too long a name, or is one of too many values");
    }
  }

  // A path consists of the keys on the way to a value, each after a dot, so that the root differs
  // from the value of the key "".
  static std::string joined(const std::string& path, const std::string& key) {
    return path + "." + key;
  }
  static std::string name_of(const std::string& path) {
    return path.empty() ? "tensor" : path.substr(1);
  }

  void pay_for(std::size_t bytes) {
    note_bytes_ += bytes;
    if (note_bytes_ > kMostNoteBytes)
      throw DataError("it has too many texts and numbers beside the tensors");
  }
  void note(const std::string& path, std::string text) {
    pay_for(path.size() + text.size());
    contents_.notes[name_of(path)] = std::move(text);
  }
  void leave_out(const std::string& path) {
    pay_for(path.size() + 1);
    contents_.left_out.push_back(name_of(path));
  }

  // Single values of a long list (a history of losses, say) do not become notes.
  void take_list(const std::string& path, const Items& items, int depth) {
    values_ += items.size() / kListedAsOne;
    bool is_left_out = false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool is_plain = items[i]->kind != Kind::kDict && items[i]->kind != Kind::kCall &&
                            items[i]->kind != Kind::kObject && items[i]->kind != Kind::kTuple &&
                            items[i]->kind != Kind::kList;
      if (is_plain && items.size() > checkpoint::kMostListed) {
        is_left_out = true;
      } else {
        take(joined(path, std::to_string(i)), *items[i], depth + 1);
      }
    }
    if (is_left_out) leave_out(path);
  }

  // Takes an object of TorchScript, in which LibTorch saves modules. Leaves out other objects.
  void take_object(const std::string& path, const Pickled& object, int depth) {
    if (!object.text.starts_with("__torch__.")) return leave_out(path);
    const bool is_empty = object.items.empty() || object.items[0]->items.empty();
    if (!is_empty) return take(path, *object.items[0], depth + 1);
    pay_for(path.size() + 1);
    contents_.notes[kModulesNote].append(name_of(path)).append("\n");
  }

  void take_entry(const std::string& path, const Pickled& key, const Pickled& value, int depth) {
    if (key.kind == Kind::kText) {
      take(joined(path, key.text), value, depth + 1);
    } else if (key.kind == Kind::kInteger) {
      take(joined(path, std::to_string(key.integer)), value, depth + 1);
    } else {
      count(path, depth);
      leave_out(joined(path, "(a key that is not a text)"));
    }
  }

  void take_call(const std::string& path, const Pickled& what, const Items& arguments, int depth) {
    count(path, depth);
    if (what.is_global("torch._utils._rebuild_tensor_v2"))
      return take_tensor(path, arguments, nullptr, 6);
    if (what.is_global("torch._utils._rebuild_tensor_v3") && arguments.size() >= 7)
      return take_tensor(path, arguments, arguments[6], 7);
    // Wrappers of their first argument: a parameter, a list of one type.
    const bool is_wrapped = what.text.starts_with("torch._utils._rebuild_parameter") ||
                            what.text.starts_with("torch.jit._pickle.");
    if (is_wrapped && !arguments.empty()) return take(path, *arguments[0], depth + 1);
    // A subclass, or a tensor with attributes. Arguments: function, type, arguments, state.
    if (what.is_global("torch._tensor._rebuild_from_type_v2") && arguments.size() >= 3)
      return take_call(path, *arguments[0], arguments[2]->items, depth + 1);
    leave_out(path);
  }

  // Arguments: storage, offset, size, stride, and more. The one at `metadata` says whether the
  // tensor is a conjugated or negated view of its storage. `dtype`: if the storage does not state
  // it.
  void take_tensor(const std::string& path, const Items& arguments, const Pickled* dtype,
                   std::size_t metadata) {
    const std::string name = name_of(path);
    if (!names_.insert(name).second) throw DataError("'" + name + "' occurs twice");
    const bool is_view = arguments.size() >= 4 && arguments[0]->kind == Kind::kPersistent &&
                         arguments[1]->kind == Kind::kInteger && arguments[1]->integer >= 0;
    const Items* const id = is_view ? &arguments[0]->items[0]->items : nullptr;
    const bool is_storage = id != nullptr && id->size() >= 3 && (*id)[0]->text == "storage" &&
                            (*id)[2]->kind == Kind::kText;
    if (!is_storage) throw DataError("'" + name + "' is a tensor without a storage");
    if (arguments.size() > metadata && is_any_true(*arguments[metadata])) {
      throw DataError(
          "'" + name +
          "' is a conjugated or negated view; save the result of resolve_conj() and resolve_neg()");
    }
    const auto type = type_of(dtype == nullptr ? *(*id)[1] : *dtype);
    if (!type) {
      throw DataError("'" + name + "' is made of " + (dtype == nullptr ? (*id)[1] : dtype)->text +
                      ", which checkpoints do not have");
    }
    const View view{static_cast<std::uint64_t>(arguments[1]->integer), numbers(name, *arguments[2]),
                    numbers(name, *arguments[3])};
    contents_.tensors.push_back(
        {name, *type, view.shape, bytes_of(name, view, *type, (*id)[2]->text)});
  }

  static bool is_any_true(const Pickled& flags) {
    for (std::size_t i = 1; i < flags.items.size(); i += 2)
      if (flags.items[i]->integer != 0) return true;
    return false;
  }

  static std::optional<ElementType> type_of(const Pickled& global) {
    const auto found = storage_types().find(global.text);
    if (found != storage_types().end()) return found->second;
    const std::string prefix = "torch.";
    if (!global.text.starts_with(prefix)) return std::nullopt;
    return element_type(global.text.substr(prefix.size()));
  }

  static std::vector<std::int64_t> numbers(const std::string& name, const Pickled& tuple) {
    std::vector<std::int64_t> values;
    if (tuple.items.size() > kMostDimensions)
      throw DataError("'" + name + "' has too many dimensions");
    for (const Pickled* item : tuple.items) {
      if (item->kind != Kind::kInteger || item->integer < 0)
        throw DataError("the shape or the strides of '" + name + "' are not numbers from 0");
      values.push_back(item->integer);
    }
    return values;
  }

  std::vector<unsigned char> bytes_of(const std::string& name, const View& view, ElementType type,
                                      const std::string& key) {
    const std::size_t item_bytes = size_of(type);
    const auto elements = elements_of(view.shape);
    std::uint64_t bytes = 0;
    if (!elements || view.strides.size() != view.shape.size() ||
        __builtin_mul_overflow(*elements, item_bytes, &bytes) || bytes > bytes_left_)
      throw DataError("the shape of '" + name + "' is larger than what the file holds");
    if (bytes == 0) return {};
    bytes_left_ -= bytes;
    const std::vector<unsigned char>& storage = storage_of(key);
    std::uint64_t last = view.offset;
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      std::uint64_t way = 0;
      if (__builtin_mul_overflow(view.shape[d] - 1, view.strides[d], &way) ||
          __builtin_add_overflow(last, way, &last))
        last = storage.size();
    }
    if (last >= storage.size() / item_bytes)
      throw DataError("'" + name + "' goes beyond its storage");
    std::vector<unsigned char> gathered(bytes);
    const unsigned char* const from = storage.data() + view.offset * item_bytes;
    unsigned char* to = gathered.data();
    if (is_contiguous(view)) {
      std::memcpy(to, from, bytes);
    } else {
      gather(view, item_bytes, from, to, 0);
    }
    return gathered;
  }

  const std::vector<unsigned char>& storage_of(const std::string& key) {
    const auto found = storages_.find(key);
    if (found != storages_.end()) return found->second;
    return storages_.emplace(key, read_storage_(key)).first->second;
  }

  const ReadStorage& read_storage_;
  std::uint64_t bytes_left_;
  std::size_t values_ = 0;
  std::size_t note_bytes_ = 0;
  std::set<std::string> names_;
  std::map<std::string, std::vector<unsigned char>> storages_;
  Contents contents_;
};

}  // namespace

std::string note_of(double number) {
  std::ostringstream text;
  text.precision(17);
  text << number;
  return text.str();
}

Contents contents_of(const Pickle& pickle, const ReadStorage& read_storage,
                     std::uint64_t most_bytes) {
  Taker taker(read_storage, most_bytes);
  taker.take("", pickle.root(), 0);
  return std::move(taker).contents();
}

}  // namespace kolo::tools
