// A folder of a test's own, the same on all ranks, which goes away with it.
#pragma once

#include <kolo/kolo.h>

#include <optional>
#include <string>

#include "temporary_folder.hpp"

namespace kolo::testing_support {

// Its making and its end are collective.
class SharedFolder {
 public:
  SharedFolder() {
    if (rank() == 0) made_.emplace();
    path_ = broadcast_object(made_ ? made_->path() : std::string());
  }
  ~SharedFolder() { barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::optional<TemporaryFolder> made_;  // on rank 0
  std::string path_;
};

}  // namespace kolo::testing_support
