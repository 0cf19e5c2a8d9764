#include "data/image_files.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "data/data_error.hpp"

namespace kolo::data {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().string().front() == '.';
}

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::vector<std::string> images_below(const fs::path& folder) {
  std::vector<std::string> paths;
  for (auto at = fs::recursive_directory_iterator(folder,
                                                  fs::directory_options::follow_directory_symlink);
       at != fs::recursive_directory_iterator(); ++at) {
    if (is_hidden(at->path())) {
      if (at->is_directory()) at.disable_recursion_pending();
    } else if (at->is_regular_file() && is_image(at->path())) {
      paths.push_back(at->path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> classes_in(const std::string& folder) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !is_hidden(entry.path()))
      classes.push_back(entry.path().filename().string());
  }
  std::sort(classes.begin(), classes.end());
  return classes;
}

}  // namespace

ImageFiles list_images(const std::string& folder) {
  constexpr auto kMend = "give a folder with a subfolder of .jpg or .png files for each class";
  ImageFiles files;
  try {
    files.classes = classes_in(folder);
    for (std::size_t i = 0; i < files.classes.size(); ++i) {
      const fs::path subfolder = fs::path(folder) / files.classes[i];
      const std::vector<std::string> paths = images_below(subfolder);
      if (paths.empty()) fail(subfolder.string(), "has no images", kMend);
      files.paths.insert(files.paths.end(), paths.begin(), paths.end());
      files.labels.insert(files.labels.end(), paths.size(), static_cast<std::int64_t>(i));
    }
  } catch (const fs::filesystem_error& error) {
    fail(error.path1().empty() ? folder : error.path1().string(),
         "cannot be read: " + error.code().message(), kMend);
  }
  if (files.classes.empty()) fail(folder, "has no subfolders", kMend);
  return files;
}

}  // namespace kolo::data
