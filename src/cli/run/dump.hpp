// The help of `kolo dump`.
#pragma once

#include <string>

namespace kolo::cli {

std::string dump_intro();

}  // namespace kolo::cli
