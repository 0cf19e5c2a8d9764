// Lists images in folders, with one subfolder per class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::data {

struct ImageFiles {
  std::vector<std::string> classes;  // sorted
  std::vector<std::string> paths;    // class by class, sorted within a class
  std::vector<std::int64_t> labels;  // the class numbers of the paths
};

// Throws DataError, which names the folder, if it is missing or cannot be read, has no subfolder,
// or has a subfolder without images.
ImageFiles list_images(const std::string& folder);

}  // namespace kolo::data
