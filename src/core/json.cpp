#include "core/json.hpp"

namespace kolo {
namespace {

// Least and most second byte of a character. They exclude overlong forms, surrogates and values
// above U+10FFFF.
struct Second {
  unsigned char least = 0x80;
  unsigned char most = 0xbf;
};

Second second_after(unsigned char first) {
  switch (first) {
    case 0xe0:
      return {0xa0, 0xbf};
    case 0xed:
      return {0x80, 0x9f};
    case 0xf0:
      return {0x90, 0xbf};
    case 0xf4:
      return {0x80, 0x8f};
    default:
      return {};
  }
}

std::size_t length_by(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

void append_escaped(std::string& json, char character) {
  static constexpr const char* kHex = "0123456789abcdef";
  switch (character) {
    case '"':
      json += "\\\"";
      return;
    case '\\':
      json += "\\\\";
      return;
    case '\n':
      json += "\\n";
      return;
    case '\t':
      json += "\\t";
      return;
    case '\r':
      json += "\\r";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(character);
  if (code >= 0x20) {
    json += character;
    return;
  }
  json += "\\u00";
  json += kHex[code >> 4];
  json += kHex[code & 15];
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const std::size_t length = length_by(byte(0));
  if (length < 2) return length;
  if (at + length > text.size()) return 0;
  const Second second = second_after(byte(0));
  if (byte(1) < second.least || byte(1) > second.most) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

void append_json_string(std::string& json, std::string_view text) {
  json += '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      json += "\\ufffd";
      ++at;
    } else if (length == 1) {
      append_escaped(json, text[at++]);
    } else {
      json += text.substr(at, length);
      at += length;
    }
  }
  json += '"';
}

std::string json_string(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

}  // namespace kolo
