// Files that are built into the program.
#pragma once

#include <string_view>

namespace kolo::tools {

std::string_view report_page();    // page.html
std::string_view report_script();  // page.js
std::string_view report_plotly();  // plotly.js, minified; empty where it was built without

}  // namespace kolo::tools
