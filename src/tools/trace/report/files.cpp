#include "tools/trace/report/files.hpp"

#include <cstddef>

extern "C" {
extern const char kolo_report_page_begin[];
extern const char kolo_report_page_end[];
extern const char kolo_report_script_begin[];
extern const char kolo_report_script_end[];
extern const char kolo_report_plotly_begin[];
extern const char kolo_report_plotly_end[];
}

namespace kolo::tools {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string_view report_page() {
  return between(kolo_report_page_begin, kolo_report_page_end);
}

std::string_view report_script() {
  return between(kolo_report_script_begin, kolo_report_script_end);
}

std::string_view report_plotly() {
  return between(kolo_report_plotly_begin, kolo_report_plotly_end);
}

}  // namespace kolo::tools
