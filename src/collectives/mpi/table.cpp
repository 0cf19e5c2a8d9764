#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "collectives/mpi/runtime.hpp"

namespace kolo {
namespace {

// First character of the text that rank 0 shares. An empty text stands for the built-in table.
constexpr char kTable = 'T';
constexpr char kError = 'E';

// Reads a regular file only: a pipe, for example, could block rank 0 and with it all ranks.
Status read_regular_file(const std::string& path, std::string& text) {
  std::error_code error;
  const bool is_regular = std::filesystem::is_regular_file(path, error);
  if (error) return Status::data("cannot be read: " + error.message());
  if (!is_regular) return Status::data("is not a regular file");
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (file != nullptr) {
    text.resize(kLongestAllreduceTable + 2);  // of a longer file, enough to reject it
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  }
  if (file == nullptr || std::ferror(file.get()) != 0)
    return Status::data("cannot be read: " + std::generic_category().message(errno));
  return Status::ok();
}

std::string text_of(const std::string& path) {
  std::string text;
  AllreduceTable table;
  Status status = read_regular_file(path, text);
  if (status.is_ok()) status = parse_allreduce_table(text, table);
  if (status.is_ok()) return kTable + text;
  return kError + ("the allreduce table of rank 0, KOLO_ALLREDUCE_TABLE='" + path +
                   "': " + status.message() + "; correct the file or unset the variable");
}

}  // namespace

Status share_allreduce_table(MpiParent parent, const Topology& topology, const std::string& path,
                             AllreduceTable& table) {
  std::string shared;
  if (topology.rank == 0 && !path.empty()) shared = text_of(path);
  if (Status s = share_text(parent, shared); !s.is_ok()) return s;
  if (shared.empty()) {
    table = AllreduceTable{};
    return Status::ok();
  }
  if (shared.front() == kError) return Status::invalid_argument(shared.substr(1));
  return parse_allreduce_table(std::string_view(shared).substr(1), table);
}

}  // namespace kolo
