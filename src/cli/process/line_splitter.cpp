#include "cli/process/line_splitter.hpp"

#include <algorithm>

namespace kolo::cli {

void LineSplitter::append(std::string_view text, const Sink& sink) {
  while (!text.empty()) {
    if (line_.size() == piece_bytes_) {
      sink(line_, LineEnd::kContinues);
      line_.clear();
      continued_ = true;
    }
    const std::size_t part = std::min(piece_bytes_ - line_.size(), text.size());
    line_.append(text.substr(0, part));
    text.remove_prefix(part);
  }
}

void LineSplitter::feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    const std::size_t stop = bytes.find_first_of("\n\r");
    if (stop != 0) after_return_ = false;
    append(bytes.substr(0, stop), sink);
    if (stop == std::string_view::npos) return;
    const bool newline = bytes[stop] == '\n';
    if (newline && after_return_) {
      sink({}, LineEnd::kBareNewline);
    } else {
      sink(line_, newline ? LineEnd::kNewline : LineEnd::kReturn);
    }
    line_.clear();
    continued_ = false;
    after_return_ = !newline;
    bytes.remove_prefix(stop + 1);
  }
}

void LineSplitter::finish(const Sink& sink) {
  if (!line_.empty() || continued_) sink(line_, LineEnd::kEndOfStream);
  line_.clear();
  continued_ = false;
}

}  // namespace kolo::cli
