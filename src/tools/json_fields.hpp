// Numbers from JSON that may have been written by anybody.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <utility>

namespace kolo::tools {

// Whether the parser sees all of the text. It takes a NUL for the end, whatever follows, and skips
// a byte order mark; neither is JSON.
inline bool parser_sees_all(std::string_view text) {
  return text.find('\0') == std::string_view::npos && !text.starts_with("\xef\xbb\xbf");
}

// Throws DataError for text of which the parser would not see all, and JSON's exceptions.
nlohmann::json parse_json(std::string_view text);

// All throw DataError for what is not there or no such number, or so large (beyond 2^61) that
// reckoning with it could overflow.
std::int64_t integer_at(const nlohmann::json& object, const char* key);
std::int64_t integer_or(const nlohmann::json& object, const char* key, std::int64_t otherwise);
int int_at(const nlohmann::json& object, const char* key);
int int_or(const nlohmann::json& object, const char* key, int otherwise);
// Of a file of one rank: 0 <= rank < size, and no job is larger than 2^20.
std::pair<int, int> rank_and_size(const nlohmann::json& header);
// Finite.
double number_at(const nlohmann::json& object, const char* key);

}  // namespace kolo::tools
