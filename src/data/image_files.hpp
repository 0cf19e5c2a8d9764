// Lists images in folders, a subfolder for each class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::data {

struct ImageFiles {
  std::vector<std::string> classes;  // sorted
  std::vector<std::string> paths;    // class by class, sorted within a class
  std::vector<std::int64_t> labels;  // of the paths: numbers of classes
};

// Throws DataError, which names the folder: it is missing or cannot be read, has no subfolder, or
// one of these has no image.
ImageFiles list_images(const std::string& folder);

}  // namespace kolo::data
