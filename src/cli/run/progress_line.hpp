// The line that a rank draws anew again and again (kolo/progress.h), among all that kolo run shows
// on a terminal.
#pragma once

#include <cstddef>
#include <string>

namespace kolo::cli {

class ProgressLine {
 public:
  // What to write to the terminal for a text. A progress line is cut to the terminal's width: of
  // one that is broken, the next one would overwrite the last part alone. Before any other text the
  // progress line is erased. columns: 0 is not known.
  std::string place(const std::string& text, std::size_t columns);

  // What erases the line, where there is one.
  std::string clear();

 private:
  bool drawn_ = false;  // the cursor stands at its begin
};

}  // namespace kolo::cli
