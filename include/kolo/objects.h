// Sends objects other than tensors between ranks.
#pragma once

#include <ATen/core/ivalue.h>
#include <kolo/error.h>
#include <kolo/operations.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace kolo {

// Converts objects of type T to bytes and back. Supported are numbers, std::string, at::Tensor,
// c10::IValue, std::pair, std::vector, std::map and std::unordered_map of supported types, and
// types with a default constructor and LibTorch's save(OutputArchive&) and load(InputArchive&). To
// support another type, specialise the template with
//   static std::string encode(const T& object);
//   static T decode(const std::string& bytes);   // throws DataError if the bytes are not a T
template <typename T, typename = void>
struct Codec;

namespace detail {

// encode() is called on ranks whose bytes are needed. If it throws, the other ranks get an error.
// `agreed` must be the same on every rank.
using Encode = std::function<std::string()>;
std::string broadcast_bytes(const Encode& encode, int root_rank, const OperationOptions& options,
                            const std::string& agreed = {});
std::vector<std::string> allgather_bytes(const Encode& encode, const OperationOptions& options);

// Pieces of bytes, each with its length, one after the other.
std::string join_pieces(const std::vector<std::string>& pieces);
std::vector<std::string> split_pieces(const std::string& bytes);  // throws DataError

// The name of the type in C++.
std::string type_name(const std::type_info& type);

// The bytes that are sent: the type, which must be the same on all ranks, and the object.
template <typename T>
std::string pack(const T& object) {
  return join_pieces({type_name(typeid(T)), Codec<T>::encode(object)});
}
template <typename T>
T unpack(const std::string& bytes) {
  const std::vector<std::string> pieces = split_pieces(bytes);
  if (pieces.size() != 2) throw DataError("bytes from another rank that are not an object");
  if (pieces[0] != type_name(typeid(T))) {
    throw DataError("another rank gave an object of type " + pieces[0] +
                    ", but this rank expects " + type_name(typeid(T)));
  }
  return Codec<T>::decode(pieces[1]);
}

using Save = std::function<void(torch::serialize::OutputArchive&)>;
using Load = std::function<void(torch::serialize::InputArchive&)>;
std::string to_archive(const Save& save);
void from_archive(const std::string& bytes, const Load& load);  // throws DataError

// Whether LibTorch can save objects of the type into an archive, and load them.
template <typename T, typename = void>
struct SavesAndLoads : std::false_type {};
template <typename T>
struct SavesAndLoads<T, std::void_t<decltype(std::declval<const T&>().save(
                                        std::declval<torch::serialize::OutputArchive&>())),
                                    decltype(std::declval<T&>().load(
                                        std::declval<torch::serialize::InputArchive&>()))>>
    : std::true_type {};

template <typename Map>
struct MapCodec {
  using Key = typename Map::key_type;
  using Value = typename Map::mapped_type;
  static std::string encode(const Map& map) {
    std::vector<std::string> pieces;
    for (const auto& [key, value] : map) {
      pieces.push_back(Codec<Key>::encode(key));
      pieces.push_back(Codec<Value>::encode(value));
    }
    return join_pieces(pieces);
  }
  static Map decode(const std::string& bytes) {
    const std::vector<std::string> pieces = split_pieces(bytes);
    if (pieces.size() % 2 != 0) throw DataError("a map with a key that has no value");
    Map map;
    for (std::size_t i = 0; i < pieces.size(); i += 2)
      map.emplace(Codec<Key>::decode(pieces[i]), Codec<Value>::decode(pieces[i + 1]));
    return map;
  }
};

}  // namespace detail

// Returns the object of rank `root_rank`, numbered among all ranks. Collective over the process set
// of the options. All ranks use the same T; DataError otherwise. Other ranks' `object` is ignored.
template <typename T>
T broadcast_object(const T& object, int root_rank = 0, const OperationOptions& options = {}) {
  return detail::unpack<T>(
      detail::broadcast_bytes([&] { return detail::pack(object); }, root_rank, options));
}

// Returns the objects of the ranks of the process set, in the set's order, without those of ranks
// that have joined. Collective over the process set. All ranks use the same T; DataError otherwise.
template <typename T>
std::vector<T> allgather_object(const T& object, const OperationOptions& options = {}) {
  std::vector<T> objects;
  const auto all = detail::allgather_bytes([&] { return detail::pack(object); }, options);
  for (const std::string& bytes : all)
    if (!bytes.empty()) objects.push_back(detail::unpack<T>(bytes));
  return objects;
}

// Codec of numbers: their bytes in memory.
template <typename T>
struct Codec<T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>> {
  // See Codec.
  static std::string encode(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static T decode(const std::string& bytes) {
    T value{};
    if (bytes.size() != sizeof value) throw DataError("bytes that are not a number");
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
};

// Codec of types that LibTorch saves into an archive, such as modules and optimizers.
template <typename T>
struct Codec<
    T, std::enable_if_t<detail::SavesAndLoads<T>::value && std::is_default_constructible_v<T>>> {
  // See Codec.
  static std::string encode(const T& object) {
    return detail::to_archive([&](auto& archive) { object.save(archive); });
  }
  static T decode(const std::string& bytes) {
    T object;
    detail::from_archive(bytes, [&](auto& archive) { object.load(archive); });
    return object;
  }
};

// Codec of strings.
template <>
struct Codec<std::string> {
  // See Codec.
  static std::string encode(const std::string& text) { return text; }
  static std::string decode(const std::string& bytes) { return bytes; }
};

// Codec of tensors, with dtype and shape.
template <>
struct Codec<at::Tensor> {
  // See Codec.
  static std::string encode(const at::Tensor& tensor);
  static at::Tensor decode(const std::string& bytes);
};

// Codec of values of TorchScript.
template <>
struct Codec<c10::IValue> {
  // See Codec.
  static std::string encode(const c10::IValue& value);
  static c10::IValue decode(const std::string& bytes);
};

// Codec of pairs of types that have codecs.
template <typename First, typename Second>
struct Codec<std::pair<First, Second>> {
  // See Codec.
  static std::string encode(const std::pair<First, Second>& pair) {
    return detail::join_pieces(
        {Codec<First>::encode(pair.first), Codec<Second>::encode(pair.second)});
  }
  static std::pair<First, Second> decode(const std::string& bytes) {
    const std::vector<std::string> pieces = detail::split_pieces(bytes);
    if (pieces.size() != 2) throw DataError("bytes that are not a pair");
    return {Codec<First>::decode(pieces[0]), Codec<Second>::decode(pieces[1])};
  }
};

// Codec of vectors of a type that has a codec.
template <typename T>
struct Codec<std::vector<T>> {
  // See Codec.
  static std::string encode(const std::vector<T>& list) {
    std::vector<std::string> pieces;
    pieces.reserve(list.size());
    for (const T& item : list) pieces.push_back(Codec<T>::encode(item));
    return detail::join_pieces(pieces);
  }
  static std::vector<T> decode(const std::string& bytes) {
    const std::vector<std::string> pieces = detail::split_pieces(bytes);
    std::vector<T> list;
    list.reserve(pieces.size());
    for (const std::string& piece : pieces) list.push_back(Codec<T>::decode(piece));
    return list;
  }
};

template <typename Key, typename Value>
struct Codec<std::map<Key, Value>> : detail::MapCodec<std::map<Key, Value>> {};
template <typename Key, typename Value>
struct Codec<std::unordered_map<Key, Value>> : detail::MapCodec<std::unordered_map<Key, Value>> {};

}  // namespace kolo
