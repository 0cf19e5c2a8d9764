#include "tools/checkpoint/contents.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "checkpoint/file_system.hpp"
#include "checkpoint/metadata.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/reading.hpp"
#include "checkpoint/writing.hpp"
#include "kolo/error.h"

namespace kolo::tools {

using namespace checkpoint;

namespace {

// Reads a text that is stored as a value or, if it is long, as a dataset.
std::string text_of(Reader& reader, const std::string& name) {
  const Table& table = reader.table();
  const auto value = table.values.find(name);
  if (value != table.values.end())
    if (const auto* text = std::get_if<std::string>(&value->second)) return *text;
  const TensorEntry* entry = table.find(name);
  if (entry == nullptr || entry->kind != Kind::kText) return "";
  std::string text(entry->bytes(), '\0');
  reader.read(static_cast<std::size_t>(entry - table.tensors.data()), text.data());
  return text;
}

}  // namespace

Contents read_checkpoint(const std::string& path, const std::string& component) {
  Reader reader(system_files(), path);
  Contents contents;
  for (std::size_t i = 0; i < reader.table().tensors.size(); ++i) {
    const TensorEntry& entry = reader.table().tensors[i];
    const std::vector<std::string> parts = split_name(entry.name);
    if (parts[0] == "notes" && parts.size() == 2 && entry.kind == Kind::kText)
      contents.notes[parts[1]] = text_of(reader, entry.name);
    if (parts[0] != component) continue;
    if (parts.size() > 2 || entry.kind != Kind::kTensor) {
      contents.left_out.push_back(entry.name);
      continue;
    }
    NamedTensor tensor{parts.back(), entry.type, entry.shape,
                       std::vector<unsigned char>(entry.bytes())};
    reader.read(i, tensor.bytes.data());
    contents.tensors.push_back(std::move(tensor));
  }
  if (contents.tensors.empty()) {
    throw InvalidArgumentError(
        path + " has no tensors under '" + component +
        "'; `kolo checkpoint info` lists its tensors, --component chooses another component");
  }
  const auto tensor_with_alias = [&](const std::string& name) -> const NamedTensor* {
    const std::optional<std::string> of = reader.table().alias(name);
    if (!of || split_name(name)[0] != component) return nullptr;
    const auto found = std::find_if(contents.tensors.begin(), contents.tensors.end(),
                                    [&](const NamedTensor& tensor) {
                                      return join_name({component, tensor.name}) == *of;
                                    });
    return found == contents.tensors.end() ? nullptr : &*found;
  };
  for (const auto& [name, value] : reader.table().values) {
    const std::vector<std::string> parts = split_name(name);
    const auto* text = std::get_if<std::string>(&value);
    if (parts[0] == "notes" && parts.size() == 2 && text != nullptr) {
      contents.notes[parts[1]] = *text;
    } else if (const NamedTensor* tensor = tensor_with_alias(name)) {
      NamedTensor again = *tensor;
      again.name = parts.back();
      contents.tensors.push_back(std::move(again));
    } else if (parts[0] == component) {
      contents.left_out.push_back(name);
    }
  }
  const std::string modules = text_of(reader, modules_name(component));
  if (!modules.empty()) contents.notes[kModulesNote] = modules;
  return contents;
}

void write_checkpoint(const std::string& path, const std::string& component,
                      const Contents& contents) {
  Table table;
  std::vector<const unsigned char*> bytes;  // of the table's tensors
  for (const NamedTensor& tensor : contents.tensors) {
    table.tensors.push_back({join_name({component, tensor.name}), tensor.type, tensor.shape});
    bytes.push_back(tensor.bytes.data());
  }
  for (const auto& [name, text] : contents.notes) {
    const std::string place =
        name == kModulesNote ? modules_name(component) : join_name({"notes", name});
    if (can_be_value(text)) {
      table.values[place] = text;
    } else {
      table.tensors.push_back(
          {place, ElementType::kUint8, {static_cast<std::int64_t>(text.size())}, Kind::kText});
      bytes.push_back(reinterpret_cast<const unsigned char*>(text.data()));
    }
  }
  put({0, 1, "", KOLO_VERSION, std::nullopt}, table);

  FileSystem& files = system_files();
  const Metadata metadata = make_metadata(table, count_pieces(table));
  const Pieces pieces(table);
  std::vector<PieceData> data;
  for (const std::size_t tensor : pieces.order()) {
    for (std::size_t i = 0; i < pieces.count(tensor); ++i) {
      const Piece piece = pieces.piece(tensor, i);
      data.push_back({piece, bytes[tensor] + piece.begin});
    }
  }
  try {
    begin_file(files, path, metadata.file_size);
    complete_file(files, path, metadata, write_pieces(files, path, data), pieces.count());
  } catch (const Error&) {
    abandon_file(files, path);
    throw;
  }
}

std::vector<unsigned char> read_file(const std::string& path) {
  const std::unique_ptr<File> file = system_files().open_to_read(path);
  std::vector<unsigned char> bytes(file->size());
  bytes.resize(file->read(0, bytes.data(), bytes.size()));
  return bytes;
}

void write_file(const std::string& path, const std::vector<std::vector<unsigned char>>& parts) {
  FileSystem& files = system_files();
  try {
    const std::unique_ptr<File> file = files.create(partial_path(path));
    std::uint64_t at = 0;
    for (const std::vector<unsigned char>& part : parts) {
      file->write(at, part.data(), part.size());
      at += part.size();
    }
    file->sync();
    file->close();
    files.rename(partial_path(path), path);
    files.sync_folder(folder_of(path));
  } catch (const Error&) {
    abandon_file(files, path);
    throw;
  }
}

}  // namespace kolo::tools
