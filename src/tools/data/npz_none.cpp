// Replaces npz.cpp in a build without libzip.
#include "data/data_error.hpp"
#include "tools/data/npz.hpp"

namespace kolo::tools {
namespace {

[[noreturn]] void refuse(const std::string& path) {
  data::fail(path, "is an archive, and this program was built without libzip",
             "install libzip with its headers and build kolo again, or save each array by "
             "numpy.save()");
}

}  // namespace

std::vector<std::string> arrays_in_npz(const std::string& path) {
  refuse(path);
}

std::unique_ptr<data::Array> read_npz(const std::string& path, const std::string& /*name*/) {
  refuse(path);
}

}  // namespace kolo::tools
