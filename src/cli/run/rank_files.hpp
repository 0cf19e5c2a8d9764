// Writes each rank's output to a file of its own.
#pragma once

#include <fstream>
#include <map>
#include <string>

namespace kolo::cli {

// Used by one thread.
class RankFiles {
 public:
  // Makes the folder. Existing files of ranks are continued. Throws UsageError if nothing can be
  // written there.
  RankFiles(std::string folder, int size);

  // Appends to the rank's file. The first time that a file cannot be written, returns the fault;
  // otherwise "".
  std::string write(int rank, const std::string& text);

  // Returns "DIR/rank-03.log", with as many digits as the last rank has.
  std::string name_of(int rank) const;

  bool has_failed() const { return has_failed_; }  // some output is missing in a file

 private:
  const std::string folder_;
  const std::size_t digits_;
  std::map<int, std::ofstream> files_;
  bool has_failed_ = false;
};

}  // namespace kolo::cli
