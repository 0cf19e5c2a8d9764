#include "tools/checkpoint/pickle.hpp"

#include <bit>
#include <unordered_map>

#include "kolo/error.h"

namespace kolo::tools {

using Kind = Pickled::Kind;

// The stack machine that runs a pickle, which is a program for it.
class Pickle::Machine {
 public:
  Machine(std::string_view bytes, std::deque<Pickled>& values) : bytes_(bytes), values_(values) {}

  const Pickled* run() {
    if (take(2) != "\x80\x02") fail("does not begin as protocol 2, torch.save's default");
    while (true) {
      operation_ = take(1)[0];
      if (operation_ == '.') return pop();
      step();
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("the pickle " + what + " (at byte " + std::to_string(at_) + ")");
  }

  // --- bytes ---

  std::string_view take(std::size_t count) {
    if (bytes_.size() - at_ < count) fail("ends too early");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  // Takes a little-endian number.
  std::uint64_t take_unsigned(std::size_t count) {
    std::uint64_t value = 0;
    const std::string_view taken = take(count);
    for (std::size_t i = 0; i < count; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }

  std::int64_t take_signed(std::size_t count) {
    if (count == 0) return 0;
    const std::uint64_t value = take_unsigned(count);
    const std::size_t unused = 64 - 8 * count;
    return static_cast<std::int64_t>(value << unused) >> unused;
  }

  std::string take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("ends within a name");
    std::string line(bytes_.substr(at_, end - at_));
    at_ = end + 1;
    return line;
  }

  // --- values ---

  Pickled* push(Kind kind) {
    values_.emplace_back().kind = kind;
    stack_.push_back(&values_.back());
    return stack_.back();
  }
  void push_integer(Kind kind, std::int64_t value) { push(kind)->integer = value; }

  Pickled* top() const {
    if (stack_.size() <= bottom()) fail("takes from an empty stack");
    return stack_.back();
  }
  Pickled* pop() {
    Pickled* const value = top();
    stack_.pop_back();
    return value;
  }
  // Values below this belong to something that was begun before the last mark.
  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<const Pickled*> pop(std::size_t count) {
    if (stack_.size() - bottom() < count) fail("takes from an empty stack");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<const Pickled*> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }
  std::vector<const Pickled*> pop_to_mark() {
    if (marks_.empty()) fail("has no mark where it needs one");
    std::vector<const Pickled*> items = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  void make(Kind kind, std::vector<const Pickled*> items) { push(kind)->items = std::move(items); }

  // Adds items to the value on top of the stack. Items of objects that are neither list nor
  // dictionary are not needed, and dropped.
  void add(Kind kind, const std::vector<const Pickled*>& items) {
    Pickled* const to = top();
    if (kind == Kind::kDict && items.size() % 2 != 0) fail("has a key without a value");
    if (to->kind == kind) to->items.insert(to->items.end(), items.begin(), items.end());
  }

  void call() {
    const std::vector<const Pickled*> both = pop(2);
    if (both[1]->kind != Kind::kTuple) fail("calls something without a tuple of arguments");
    if (both[0]->is_global("collections.OrderedDict") && both[1]->items.empty()) {
      push(Kind::kDict);
    } else {
      make(Kind::kCall, both);
    }
  }

  // Pops attributes and sets them in the object below. Attributes of other values (a state_dict's
  // versions, say) are not needed, and dropped.
  void set_attributes() {
    const Pickled* const attributes = pop();
    Pickled* const object = top();
    if (object->kind != Kind::kObject) return;
    object->items = {attributes};
    if (attributes->kind != Kind::kDict) object->kind = Kind::kOther;  // only code could make it
  }

  void remember(std::uint64_t number) { memo_[number] = top(); }
  void recall(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) fail("recalls what it has not remembered");
    stack_.push_back(found->second);
  }

  void step() {
    switch (static_cast<unsigned char>(operation_)) {
      case 'N':
        push(Kind::kNone);
        break;
      case 0x88:
      case 0x89:
        push_integer(Kind::kBool, operation_ == '\x88' ? 1 : 0);
        break;
      case 'J':
        push_integer(Kind::kInteger, take_signed(4));
        break;
      case 'K':
        push_integer(Kind::kInteger, take_small(1));
        break;
      case 'M':
        push_integer(Kind::kInteger, take_small(2));
        break;
      case 0x8a:
        push_long(take_unsigned(1));
        break;
      case 'G':
        push_float();
        break;
      case 'X':
        push(Kind::kText)->text = take(take_unsigned(4));
        break;
      default:
        step_of_containers();
    }
  }

  void step_of_containers() {
    switch (static_cast<unsigned char>(operation_)) {
      case '(':
        marks_.push_back(stack_.size());
        break;
      case ')':
        push(Kind::kTuple);
        break;
      case 0x85:
      case 0x86:
      case 0x87:
        make(Kind::kTuple, pop(static_cast<unsigned char>(operation_) - 0x84U));
        break;
      case 't':
        make(Kind::kTuple, pop_to_mark());
        break;
      case ']':
        push(Kind::kList);
        break;
      case 'a':
        add(Kind::kList, pop(1));
        break;
      case 'e':
        add(Kind::kList, pop_to_mark());
        break;
      case '}':
        push(Kind::kDict);
        break;
      case 's':
        add(Kind::kDict, pop(2));
        break;
      case 'u':
        add(Kind::kDict, pop_to_mark());
        break;
      default:
        step_of_objects();
    }
  }

  void step_of_objects() {
    switch (static_cast<unsigned char>(operation_)) {
      case 'c': {
        const std::string module = take_line();
        push(Kind::kGlobal)->text = module + "." + take_line();
        break;
      }
      case 'R':
        call();
        break;
      case 0x81: {
        const std::string name = pop(2)[0]->text;
        push(Kind::kObject)->text = name;
        break;
      }
      case 'b':
        set_attributes();
        break;
      case 'Q':
        make(Kind::kPersistent, pop(1));
        break;
      case 'q':
        remember(take_unsigned(1));
        break;
      case 'r':
        remember(take_unsigned(4));
        break;
      case 'h':
        recall(take_unsigned(1));
        break;
      case 'j':
        recall(take_unsigned(4));
        break;
      default:
        fail("has the operation " + std::to_string(static_cast<unsigned char>(operation_)) +
             ", which is not known");
    }
  }

  std::int64_t take_small(std::size_t count) {
    return static_cast<std::int64_t>(take_unsigned(count));
  }

  void push_long(std::uint64_t bytes) {
    if (bytes <= sizeof(std::int64_t)) return push_integer(Kind::kInteger, take_signed(bytes));
    take(bytes);
    push(Kind::kOther);
  }

  void push_float() {  // big endian
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    push(Kind::kFloat)->number = std::bit_cast<double>(bits);
  }

  const std::string_view bytes_;
  std::size_t at_ = 0;
  char operation_ = 0;
  std::deque<Pickled>& values_;
  std::vector<Pickled*> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::unordered_map<std::uint64_t, Pickled*> memo_;
};

Pickle::Pickle(std::string_view bytes) : root_(Machine(bytes, values_).run()) {}

}  // namespace kolo::tools
