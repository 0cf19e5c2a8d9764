// Cuts a stream of bytes into lines. A carriage return also ends a line, so that progress lines
// appear while they are made.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace kolo::cli {

enum class LineEnd : char {
  kNewline = 'n',
  kReturn = 'r',       // ended by '\r'; what follows overwrites it on a terminal
  kBareNewline = 'b',  // the '\n' of "\r\n", after its line was handed out: no line of its own
  kContinues = '-',    // longer than the piece limit: the next piece continues the line
  kEndOfStream = 'f',  // the stream ended without a newline
};

// Used by one thread.
class LineSplitter {
 public:
  using Sink = std::function<void(std::string_view text, LineEnd end)>;

  // A line longer than piece_bytes is handed out in pieces, so that memory stays bounded.
  explicit LineSplitter(std::size_t piece_bytes) : piece_bytes_(piece_bytes) {}

  void feed(std::string_view bytes, const Sink& sink);
  // At the end of the stream, hands out what is left of an unfinished line.
  void finish(const Sink& sink);

 private:
  void append(std::string_view text, const Sink& sink);

  const std::size_t piece_bytes_;
  std::string line_;
  bool continued_ = false;     // pieces of the current line were handed out already
  bool after_return_ = false;  // the last byte was '\r': a '\n' now makes it one "\r\n"
};

}  // namespace kolo::cli
