#include "tools/printable.hpp"

#include <array>
#include <cstdio>

namespace kolo::tools {
namespace {

bool is_control(unsigned char byte) {
  return byte < 0x20 || byte == 0x7f;
}

// Whether the bytes are U+0080 to U+009F in UTF-8. Terminals take some of these for the escape
// character.
bool is_wide_control(unsigned char before, unsigned char byte) {
  return before == 0xc2 && byte >= 0x80 && byte <= 0x9f;
}

}  // namespace

std::string printable(const std::string& text, const std::string& kept) {
  std::string shown;
  unsigned char before = 0;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_wide = is_wide_control(before, byte);
    if (is_wide) shown.pop_back();
    if (is_wide || (is_control(byte) && kept.find(letter) == std::string::npos)) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", byte);
      shown += escaped.data();
    } else {
      shown += letter;
    }
    before = byte;
  }
  return shown;
}

}  // namespace kolo::tools
