#include "core/terminal.hpp"

#include <sys/ioctl.h>

namespace kolo {

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string first_columns(const std::string& text, std::size_t columns) {
  std::size_t characters = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins && ++characters > columns) return text.substr(0, at);
  }
  return text;
}

}  // namespace kolo
