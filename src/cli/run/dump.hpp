// What the help of `kolo dump` says.
#pragma once

#include <string>

namespace kolo::cli {

std::string dump_intro();

}  // namespace kolo::cli
