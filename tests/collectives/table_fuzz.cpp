// libFuzzer's entry to the reader of allreduce tables. What it accepts is written and read again as
// the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "collectives/algorithms/table.hpp"

namespace {

void read(const std::string& text) {
  kolo::AllreduceTable table;
  if (!kolo::parse_allreduce_table(text, table).is_ok()) return;
  kolo::AllreduceTable again;
  const std::string written = kolo::write_allreduce_table(table);
  if (!kolo::parse_allreduce_table(written, again).is_ok() || again != table) std::abort();
  for (const int ranks : {1, 2, 3, 1 << 30}) table.choose(ranks, text.size());
}

// Bytes that stand for words, so that rows come about.
constexpr std::string_view kWords[] = {
    "ranks 2\n",        "ranks ", "0 ring\n", "recursive-doubling\n",
    "halving-doubling", " tree",  "\r\n",     "1099511627776"};

std::string spelt_out(const std::string& text) {
  std::string words = "# kolo allreduce table, version 1\n";
  for (const char c : text) {
    const auto word = static_cast<unsigned char>(c);
    words += word < std::size(kWords) ? kWords[word] : std::string_view(&c, 1);
  }
  return words;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  read(spelt_out(text));
  return 0;
}
