#include "tools/json_fields.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

using nlohmann::json;

constexpr std::int64_t kMost = std::int64_t{1} << 61;

DataError wrong(const char* key, const std::string& what) {
  return DataError("'" + std::string(key) + "' " + what);
}

const json& field(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end()) throw wrong(key, "is missing");
  return *found;
}

std::int64_t integer(const json& value, const char* key) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMost))
    throw wrong(key, "is too large");
  if (!value.is_number_integer()) throw wrong(key, "is not a whole number");
  const auto number = value.get<std::int64_t>();
  if (number < -kMost) throw wrong(key, "is too small");
  return number;
}

int narrowed(std::int64_t number, const char* key) {
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max())
    throw wrong(key, "is too large");
  return static_cast<int>(number);
}

constexpr int kMostRanks = 1 << 20;

}  // namespace

json parse_json(std::string_view text) {
  if (!parser_sees_all(text)) {
    throw DataError(
        "has a zero byte or a byte order mark, which JSON does not have: the file is damaged");
  }
  return json::parse(text.begin(), text.end());
}

std::int64_t integer_at(const json& object, const char* key) {
  return integer(field(object, key), key);
}

std::int64_t integer_or(const json& object, const char* key, std::int64_t otherwise) {
  return object.contains(key) ? integer_at(object, key) : otherwise;
}

int int_at(const json& object, const char* key) {
  return narrowed(integer_at(object, key), key);
}

int int_or(const json& object, const char* key, int otherwise) {
  return narrowed(integer_or(object, key, otherwise), key);
}

std::pair<int, int> rank_and_size(const json& header) {
  const int rank = int_at(header, "rank");
  const int size = int_at(header, "size");
  if (size < 1 || size > kMostRanks || rank < 0 || rank >= size) {
    throw DataError("its header says that it is of rank " + std::to_string(rank) + " of " +
                    std::to_string(size));
  }
  return {rank, size};
}

double number_at(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_number()) throw wrong(key, "is not a number");
  const auto number = value.get<double>();
  if (!std::isfinite(number)) throw wrong(key, "is not a number");
  return number;
}

}  // namespace kolo::tools
