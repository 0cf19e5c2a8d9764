// Checks for formats whose texts are UTF-8. The names in a checkpoint may be any bytes.
#pragma once

#include <string>

#include "tools/checkpoint/contents.hpp"

namespace kolo::tools {

// Throw InvalidArgumentError, which shows the text and names the format, for a tensor's name or a
// note that is not UTF-8.
void require_utf8_names(const Contents& contents, const std::string& format);
void require_utf8_notes(const Contents& contents, const std::string& format);

}  // namespace kolo::tools
