// The line that a rank redraws again and again (kolo/progress.h), among everything that kolo run
// shows on a terminal.
#pragma once

#include <cstddef>
#include <string>

namespace kolo::cli {

class ProgressLine {
 public:
  // Returns the bytes to write to the terminal for a text. Cuts a progress line to the terminal's
  // width, because the next one would overwrite only the last row of a longer one. Erases the
  // progress line before any other text. columns: 0 if unknown.
  std::string place(const std::string& text, std::size_t columns);

  // Returns the bytes that erase the line, if there is one.
  std::string clear();

 private:
  bool drawn_ = false;  // the cursor is at its beginning
};

}  // namespace kolo::cli
