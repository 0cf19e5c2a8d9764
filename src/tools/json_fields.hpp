// Reads numbers from JSON of any origin.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <utility>

namespace kolo::tools {

// Whether JSON's parser sees all of the text. The parser takes a NUL for the end, whatever follows,
// and skips a byte order mark; neither is JSON.
inline bool parser_sees_all(std::string_view text) {
  return text.find('\0') == std::string_view::npos && !text.starts_with("\xef\xbb\xbf");
}

// Throws DataError for text that the parser would not see completely, and JSON's exceptions.
nlohmann::json parse_json(std::string_view text);

// All throw DataError if the key is missing (without an `otherwise`), if the value is not such a
// number, or if it is so large (beyond 2^61) that arithmetic with it could overflow.
std::int64_t integer_at(const nlohmann::json& object, const char* key);
std::int64_t integer_or(const nlohmann::json& object, const char* key, std::int64_t otherwise);
int int_at(const nlohmann::json& object, const char* key);
int int_or(const nlohmann::json& object, const char* key, int otherwise);
// Returns rank and size from a rank's file: 0 <= rank < size, and no job is larger than 2^20.
std::pair<int, int> rank_and_size(const nlohmann::json& header);
// Returns a finite number.
double number_at(const nlohmann::json& object, const char* key);

}  // namespace kolo::tools
