#include "hdf5/types.hpp"

#include <cstdint>

namespace kolo::hdf5 {
namespace {

struct FloatLayout {
  std::size_t bytes, exponent_at, exponent_bits, mantissa_bits, bias;
};

Id copy_of(hid_t type) {
  return {H5Tcopy(type), "H5Tcopy"};
}

Id small_float(const FloatLayout& layout) {
  Id type = copy_of(H5T_IEEE_F32LE);
  const std::size_t sign_at = layout.bytes * 8 - 1;
  checked(H5Tset_fields(type.get(), sign_at, layout.exponent_at, layout.exponent_bits, 0,
                        layout.mantissa_bits),
          "H5Tset_fields");
  checked(H5Tset_size(type.get(), layout.bytes), "H5Tset_size");
  checked(H5Tset_ebias(type.get(), layout.bias), "H5Tset_ebias");
  return type;
}

Id boolean() {
  Id type(H5Tenum_create(H5T_STD_I8LE), "H5Tenum_create");
  const std::int8_t no = 0;
  const std::int8_t yes = 1;
  checked(H5Tenum_insert(type.get(), "FALSE", &no), "H5Tenum_insert");
  checked(H5Tenum_insert(type.get(), "TRUE", &yes), "H5Tenum_insert");
  return type;
}

Id complex_of(hid_t part) {
  const std::size_t size = H5Tget_size(part);
  Id type(H5Tcreate(H5T_COMPOUND, 2 * size), "H5Tcreate");
  checked(H5Tinsert(type.get(), "r", 0, part), "H5Tinsert");
  checked(H5Tinsert(type.get(), "i", size, part), "H5Tinsert");
  return type;
}

Id make(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return boolean();
    case ElementType::kUint8:
    case ElementType::kFloat8E4m3fn:
    case ElementType::kFloat8E5m2:
      return copy_of(H5T_STD_U8LE);
    case ElementType::kInt8:
      return copy_of(H5T_STD_I8LE);
    case ElementType::kInt16:
      return copy_of(H5T_STD_I16LE);
    case ElementType::kInt32:
      return copy_of(H5T_STD_I32LE);
    case ElementType::kInt64:
      return copy_of(H5T_STD_I64LE);
    case ElementType::kUint16:
      return copy_of(H5T_STD_U16LE);
    case ElementType::kUint32:
      return copy_of(H5T_STD_U32LE);
    case ElementType::kUint64:
      return copy_of(H5T_STD_U64LE);
    case ElementType::kFloat16:
      return small_float({2, 10, 5, 10, 15});
    case ElementType::kBfloat16:
      return small_float({2, 7, 8, 7, 127});
    case ElementType::kFloat32:
      return copy_of(H5T_IEEE_F32LE);
    case ElementType::kFloat64:
      return copy_of(H5T_IEEE_F64LE);
    case ElementType::kComplex64:
      return complex_of(H5T_IEEE_F32LE);
    case ElementType::kComplex128:
      return complex_of(H5T_IEEE_F64LE);
  }
  return {};
}

}  // namespace

Types::Types() {
  for (int i = 0; i < kElementTypeCount; ++i)
    types_[static_cast<std::size_t>(i)] = make(static_cast<ElementType>(i));
}

// If several element types have the same stored form, returns the first one, which is uint8.
std::optional<ElementType> Types::find(hid_t stored) const {
  for (int i = 0; i < kElementTypeCount; ++i) {
    if (H5Tequal(stored, types_[static_cast<std::size_t>(i)].get()) > 0)
      return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

Id text_type(std::size_t length) {
  Id type = copy_of(H5T_C_S1);
  checked(H5Tset_size(type.get(), length), "H5Tset_size");
  checked(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "H5Tset_strpad");
  checked(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset");
  return type;
}

}  // namespace kolo::hdf5
