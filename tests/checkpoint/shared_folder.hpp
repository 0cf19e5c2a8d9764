// A folder of a test's own, the same on all ranks, which goes away with it.
#pragma once

#include <kolo/kolo.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace kolo::testing_support {

class SharedFolder {
 public:
  SharedFolder() {
    std::string made;
    if (rank() == 0) {
      made = (std::filesystem::temp_directory_path() / "kolo-checkpoint-XXXXXX").string();
      if (::mkdtemp(made.data()) == nullptr) made.clear();
    }
    path_ = broadcast_object(made);
  }
  ~SharedFolder() {
    barrier();
    if (rank() == 0) std::filesystem::remove_all(path_);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace kolo::testing_support
