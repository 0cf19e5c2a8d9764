#include "tools/checkpoint/pickle_writer.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/checkpoint/utf8.hpp"

namespace kolo::tools {
namespace {

// Returns torch's storage class for a type; null if there is none, and the tensor states its type.
const char* storage_class(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return "BoolStorage";
    case ElementType::kUint8:
      return "ByteStorage";
    case ElementType::kInt8:
      return "CharStorage";
    case ElementType::kInt16:
      return "ShortStorage";
    case ElementType::kInt32:
      return "IntStorage";
    case ElementType::kInt64:
      return "LongStorage";
    case ElementType::kFloat16:
      return "HalfStorage";
    case ElementType::kBfloat16:
      return "BFloat16Storage";
    case ElementType::kFloat32:
      return "FloatStorage";
    case ElementType::kFloat64:
      return "DoubleStorage";
    case ElementType::kComplex64:
      return "ComplexFloatStorage";
    case ElementType::kComplex128:
      return "ComplexDoubleStorage";
    default:
      return nullptr;
  }
}

// Writes the operations of protocol 2, under the names in Python's pickletools.
class Writer {
 public:
  std::string state_dict(const Contents& contents) {
    bytes_ = "\x80\x02";  // PROTO 2
    bytes_ += "}(";       // EMPTY_DICT, MARK
    for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
      text(contents.tensors[i].name);
      tensor(contents.tensors[i], std::to_string(i));
    }
    bytes_ += "u.";  // SETITEMS, STOP
    return std::move(bytes_);
  }

 private:
  // Writes torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), or
  // _v3, which has a dtype after them.
  void tensor(const NamedTensor& tensor, const std::string& key) {
    const char* const storage = storage_class(tensor.type);
    global("torch._utils", storage != nullptr ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    bytes_ += '(';
    const std::size_t size = storage != nullptr ? size_of(tensor.type) : 1;
    bytes_ += '(';
    text("storage");
    storage != nullptr ? global("torch", storage) : global("torch.storage", "UntypedStorage");
    text(key);
    text("cpu");
    number(static_cast<std::int64_t>(tensor.bytes.size() / size));
    bytes_ += "tQ";  // TUPLE, BINPERSID
    number(0);
    numbers(tensor.shape);
    numbers(strides_of(tensor.shape));
    bytes_ += '\x89';  // NEWFALSE
    global("collections", "OrderedDict");
    bytes_ += ")R";  // EMPTY_TUPLE, REDUCE
    if (storage == nullptr) global("torch", name_of(tensor.type));
    bytes_ += "tR";  // TUPLE, REDUCE
  }

  // Returns row-major strides. An extent of 0 counts as 1, as in torch.
  static std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size());
    std::uint64_t stride = 1;  // may overflow for a tensor without elements, which needs no strides
    for (std::size_t d = shape.size(); d-- > 0;) {
      strides[d] = static_cast<std::int64_t>(stride & std::numeric_limits<std::int64_t>::max());
      stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[d], 1));
    }
    return strides;
  }

  void numbers(const std::vector<std::int64_t>& values) {
    bytes_ += '(';
    for (const std::int64_t value : values) number(value);
    bytes_ += 't';
  }

  void number(std::int64_t value) {  // none is negative
    if (value < 1 << 8) {
      bytes_ += 'K';  // BININT1
      little_endian(value, 1);
    } else if (value <= std::numeric_limits<std::int32_t>::max()) {
      bytes_ += 'J';  // BININT
      little_endian(value, 4);
    } else {
      bytes_ += "\x8a\x08";  // LONG1 of 8 bytes
      little_endian(value, 8);
    }
  }

  void text(std::string_view value) {
    bytes_ += 'X';  // BINUNICODE
    little_endian(static_cast<std::int64_t>(value.size()), 4);
    bytes_ += value;
  }

  void global(std::string_view module, std::string_view name) {
    bytes_.append("c").append(module).append("\n").append(name).append("\n");
  }

  void little_endian(std::int64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }

  std::string bytes_;
};

}  // namespace

std::string pickle_of(const Contents& contents) {
  require_utf8_names(contents, "a state_dict");
  return Writer().state_dict(contents);
}

}  // namespace kolo::tools
