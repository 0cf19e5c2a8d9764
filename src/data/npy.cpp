#include "data/npy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "data/data_error.hpp"

namespace kolo::data {
namespace {

constexpr std::array<std::uint8_t, 6> kMagic{0x93, 'N', 'U', 'M', 'P', 'Y'};

// The entries of the header's dictionary.
struct Description {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

[[noreturn]] void fail_unsupported(const std::string& path, const std::string& reason,
                                   const std::string& mend) {
  throw UnsupportedArrayError(path + ": " + reason + "; " + mend);
}

// Parses {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, a Python dictionary.
class Parser {
 public:
  Parser(std::string text, const std::string& path) : text_(std::move(text)), path_(path) {}

  Description parse() {
    Description description;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !description.descr) {
        if (peek() == '[') {
          fail_unsupported(path_, "holds structures", "save each field as an array of its own");
        }
        description.descr = quoted();
      } else if (key == "fortran_order" && !description.fortran_order) {
        description.fortran_order = truth();
      } else if (key == "shape" && !description.shape) {
        description.shape = numbers();
      } else {
        refuse("unexpected entry '" + key + "'");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (peek() != '\0') refuse("text after its end");
    return description;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(path_, "its header is not valid: " + what, kGetAgain);
  }
  // Skips spaces, and returns the next character; 0 at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) refuse("expected '" + std::string(1, wanted) + "'");
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse("expected a text");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) refuse("a text without an end");
    std::string inner = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inner;
  }
  bool truth() {
    peek();
    for (const auto& [word, value] :
         {std::pair<std::string, bool>("True", true), {"False", false}}) {
      if (text_.compare(at_, word.size(), word) != 0) continue;
      at_ += word.size();
      return value;
    }
    refuse("expected True or False");
  }
  std::int64_t number() {
    const std::size_t begin = (peek(), at_);
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const std::int64_t digit = text_[at_] - '0';
      if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10)
        refuse("a number that is too large");
      value = value * 10 + digit;
    }
    if (at_ == begin) refuse("expected a number");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 writes it
    return value;
  }
  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> all;
    expect('(');
    while (!take(')')) {
      all.push_back(number());
      if (take(',')) continue;
      expect(')');
      break;
    }
    return all;
  }

  const std::string text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

ElementType element_of(const std::string& descr, const std::string& path) {
  static const std::map<std::string, ElementType> kTypes{
      {"b1", ElementType::kBool},      {"i1", ElementType::kInt8},
      {"i2", ElementType::kInt16},     {"i4", ElementType::kInt32},
      {"i8", ElementType::kInt64},     {"u1", ElementType::kUint8},
      {"u2", ElementType::kUint16},    {"u4", ElementType::kUint32},
      {"u8", ElementType::kUint64},    {"f2", ElementType::kFloat16},
      {"f4", ElementType::kFloat32},   {"f8", ElementType::kFloat64},
      {"c8", ElementType::kComplex64}, {"c16", ElementType::kComplex128}};
  const auto found = kTypes.find(descr.empty() ? "" : descr.substr(1));
  const char order = descr.empty() ? '\0' : descr[0];
  const bool is_known = order == '<' || order == '>' || order == '|' || order == '=';
  if (found == kTypes.end() || !is_known) {
    fail_unsupported(path,
                     "holds elements of NumPy's type '" + descr + "', which tensors do not have",
                     "save numbers of 8, 16, 32 or 64 bits");
  }
  if (order == '>' && size_of(found->second) > 1) {
    fail_unsupported(path, "is big-endian ('" + descr + "')",
                     "save array.astype(array.dtype.newbyteorder('<'))");
  }
  return found->second;
}

}  // namespace

NpyArray parse_npy(const std::vector<std::uint8_t>& beginning, std::uint64_t file_size,
                   const std::string& path) {
  const auto require = [&](std::size_t size) {
    if (beginning.size() < size) fail(path, "ends within its header", kGetAgain);
  };
  require(kMagic.size() + 2);
  if (!std::equal(kMagic.begin(), kMagic.end(), beginning.begin()))
    fail(path, "was not written by numpy.save()", "give the path of an .npy file");
  const unsigned version = beginning[kMagic.size()];
  if (version < 1 || version > 3) {
    fail(path, "has version " + std::to_string(version) + " of the format, and 1 to 3 are known",
         "save it with another version of NumPy");
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t begin = kMagic.size() + 2;
  require(begin + length_bytes);
  std::size_t length = 0;
  for (std::size_t i = length_bytes; i > 0; --i) length = length << 8U | beginning[begin + i - 1];
  begin += length_bytes;
  if (length > kLongestNpyHeader - begin)
    fail(path, "has a header of " + std::to_string(length) + " bytes", kGetAgain);
  require(begin + length);
  const auto* const text = reinterpret_cast<const char*>(beginning.data()) + begin;
  const Description found = Parser(std::string(text, length), path).parse();
  if (!found.descr || !found.fortran_order || !found.shape)
    fail(path, "its header lacks descr, fortran_order or shape", kGetAgain);

  NpyArray array{element_of(*found.descr, path), *found.shape, begin + length};
  if (*found.fortran_order && array.shape.size() > 1)
    fail_unsupported(path, "is in Fortran's order", "save numpy.ascontiguousarray(array)");
  const std::optional<std::uint64_t> elements = elements_of(array.shape);
  const std::uint64_t room = file_size - std::min<std::uint64_t>(file_size, array.offset);
  if (!elements || *elements > room / size_of(array.type))
    fail(path, "ends before its array does", kGetAgain);
  return array;
}

}  // namespace kolo::data
