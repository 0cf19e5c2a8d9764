// Reads Python's pickles of protocol 2, which torch.save writes, as data: imports and calls
// nothing, whatever the pickle asks for. The format: Python's Lib/pickletools.py.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::tools {

struct Pickled {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,        // integer
    kInteger,     // integer
    kFloat,       // number
    kText,        // text
    kTuple,       // items
    kList,        // items
    kDict,        // items: key, value, key, value ... Also a collections.OrderedDict
    kGlobal,      // text: "module.name"
    kCall,        // items: what would be called, its arguments
    kObject,      // text: its class, as "module.name"; items: a kDict of its attributes, or none
    kPersistent,  // items: the id of something outside the pickle
    kOther,       // a number of more than 64 bits; an object that only code could make
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<const Pickled*> items;

  bool is_global(std::string_view name) const { return kind == Kind::kGlobal && text == name; }
};

class Pickle {
 public:
  // Throws DataError.
  explicit Pickle(std::string_view bytes);

  // Lives as long as the pickle. Values may be shared, and may contain themselves, so a caller that
  // follows items must limit steps and depth.
  const Pickled& root() const { return *root_; }

 private:
  class Machine;

  std::deque<Pickled> values_;
  const Pickled* root_ = nullptr;
};

}  // namespace kolo::tools
