// The line that a rank draws anew again and again (kolo/progress.h), among all that kolo run shows
// on a terminal.
#pragma once

#include <cstddef>
#include <string>

namespace kolo::cli {

class ProgressLine {
 public:
  // Returns the bytes to write to the terminal for a text. A progress line is cut to the terminal's
  // width, because the next one would overwrite only the last row of a longer one. Before any other
  // text the progress line is erased. columns: 0 if not known.
  std::string place(const std::string& text, std::size_t columns);

  // Returns the bytes that erase the line, if there is one.
  std::string clear();

 private:
  bool drawn_ = false;  // the cursor stands at its begin
};

}  // namespace kolo::cli
