// libFuzzer's entry to tables in text; built with clang when KOLO_FUZZ is ON. Only a DataError, or
// a table whose lines are complete, may come out of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "data/csv.hpp"
#include "kolo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const kolo::data::CsvTable table = kolo::data::parse_csv(text, ',', "fuzz");
    if (table.columns.empty() || table.values.size() % table.columns.size() != 0) std::abort();
  } catch (const kolo::DataError&) {
    return 0;
  }
  return 0;
}
