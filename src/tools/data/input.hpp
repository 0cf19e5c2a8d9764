// Opens files of any format that kolo reads as arrays of samples and targets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/array.hpp"

namespace kolo::tools {

enum class DataFormat { kHdf5, kNpy, kNpz, kIdx, kCsv, kImages };

// Recognizes a format by the content. A folder has images; a file that begins like no other format
// is text. Throws DataError for a file that is missing or cannot be read.
DataFormat data_format_of(const std::string& path);
const char* name_of(DataFormat format);

struct Samples {
  std::unique_ptr<data::Array> samples;
  std::unique_ptr<data::Array> targets;                    // or null
  std::vector<std::pair<std::string, std::string>> notes;  // to keep: "classes", "columns"
};

// Chooses the arrays of a file that has several.
struct Choice {
  std::string samples;   // the array of an HDF5 or .npz file; empty: "samples"
  std::string targets;   // an array, or the column of a table; empty: "targets" if there is one
  char delimiter = ',';  // of a table
};

// Opens the samples in `path`, with the targets that lie in the same file or folder. Throws
// DataError, and UsageError for a choice that the format does not have.
Samples open_samples(const std::string& path, const Choice& choice);

// Opens a file with one array, such as a file of targets.
std::unique_ptr<data::Array> open_array(const std::string& path);

}  // namespace kolo::tools
