#include "tools/checkpoint/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "kolo/error.h"
#include "tools/checkpoint/utf8.hpp"
#include "tools/json_fields.hpp"

namespace kolo::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostHeader = 100'000'000;  // the reference implementation's limit
constexpr const char* kMetadata = "__metadata__";

constexpr std::pair<const char*, ElementType> kTypes[] = {{"BOOL", ElementType::kBool},
                                                          {"U8", ElementType::kUint8},
                                                          {"I8", ElementType::kInt8},
                                                          {"I16", ElementType::kInt16},
                                                          {"I32", ElementType::kInt32},
                                                          {"I64", ElementType::kInt64},
                                                          {"U16", ElementType::kUint16},
                                                          {"U32", ElementType::kUint32},
                                                          {"U64", ElementType::kUint64},
                                                          {"F16", ElementType::kFloat16},
                                                          {"BF16", ElementType::kBfloat16},
                                                          {"F32", ElementType::kFloat32},
                                                          {"F64", ElementType::kFloat64},
                                                          {"C64", ElementType::kComplex64},
                                                          {"F8_E4M3", ElementType::kFloat8E4m3fn},
                                                          {"F8_E5M2", ElementType::kFloat8E5m2}};

class Parser {
 public:
  Parser(const std::vector<unsigned char>& bytes, const std::string& path)
      : bytes_(bytes), path_(path) {}

  Contents parse() {
    std::uint64_t header = 0;
    if (bytes_.size() < sizeof header) refuse("it is too short");
    std::memcpy(&header, bytes_.data(), sizeof header);
    if (header > kMostHeader || header > bytes_.size() - sizeof header)
      refuse("its header is longer than the file");
    data_ = sizeof header + header;
    const Json json =
        parse_header({reinterpret_cast<const char*>(bytes_.data()) + sizeof header, header});
    Contents contents;
    for (const auto& [name, entry] : json.items()) {
      if (name == kMetadata) {
        notes(entry, contents);
      } else {
        contents.tensors.push_back(tensor(name, entry));
      }
    }
    check_holes();
    return contents;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(path_ + " is not a safetensors file, or is damaged: " + what);
  }

  Json parse_header(std::string_view text) const {
    if (!parser_sees_all(text)) refuse("its header has a zero byte or a byte order mark");
    std::vector<std::set<std::string>> keys;  // of the objects that are open
    const auto check_keys = [&](int, Json::parse_event_t event, const Json& parsed) {
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key) {
        const auto key = parsed.get<std::string>();
        if (!keys.back().insert(key).second) refuse("its header has '" + key + "' twice");
      }
      return true;
    };
    Json json = Json::parse(text.begin(), text.end(), check_keys, /*allow_exceptions=*/false);
    if (!json.is_object()) refuse("its header is not a JSON object");
    return json;
  }

  void notes(const Json& entry, Contents& contents) const {
    if (entry.is_null()) return;
    if (!entry.is_object()) refuse("its metadata are not a JSON object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) refuse("its metadata have '" + key + "', which is not a text");
      contents.notes[key] = value.get<std::string>();
    }
  }

  std::uint64_t number(const std::string& name, const Json& value) const {
    if (!value.is_number_unsigned())
      refuse("'" + name + "' has a value that is not a whole number from 0");
    return value.get<std::uint64_t>();
  }

  NamedTensor tensor(const std::string& name, const Json& entry) {
    const bool is_complete = entry.is_object() && entry.contains("dtype") &&
                             entry["dtype"].is_string() && entry.contains("shape") &&
                             entry["shape"].is_array() && entry.contains("data_offsets") &&
                             entry["data_offsets"].is_array() && entry["data_offsets"].size() == 2;
    if (!is_complete) refuse("'" + name + "' lacks dtype, shape or data_offsets");
    NamedTensor tensor{name, type(name, entry["dtype"].get<std::string>()), {}, {}};
    for (const Json& extent : entry["shape"]) {
      const std::uint64_t value = number(name, extent);
      if (value > INT64_MAX) refuse("'" + name + "' has an impossible shape");
      tensor.shape.push_back(static_cast<std::int64_t>(value));
    }
    const std::uint64_t begin = number(name, entry["data_offsets"][0]);
    const std::uint64_t end = number(name, entry["data_offsets"][1]);
    const std::uint64_t room = bytes_.size() - data_;
    if (begin > end || end > room) refuse("'" + name + "' does not lie within the file");
    const std::optional<std::uint64_t> elements = elements_of(tensor.shape);
    if (!elements || *elements > room || *elements * size_of(tensor.type) != end - begin)
      refuse("'" + name + "' has a shape that does not fit its bytes");
    places_.emplace_back(begin, end);
    const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(data_ + begin);
    tensor.bytes.assign(first, first + static_cast<std::ptrdiff_t>(end - begin));
    return tensor;
  }

  ElementType type(const std::string& name, const std::string& dtype) const {
    for (const auto& [text, type] : kTypes)
      if (dtype == text) return type;
    refuse("'" + name + "' has dtype " + dtype + ", which kolo does not know");
  }

  void check_holes() {
    std::sort(places_.begin(), places_.end());
    std::uint64_t at = 0;
    for (const auto& [begin, end] : places_) {
      if (begin != at) refuse("its tensors overlap or leave holes");
      at = end;
    }
    if (at != bytes_.size() - data_) refuse("it has bytes that belong to no tensor");
  }

  const std::vector<unsigned char>& bytes_;
  const std::string& path_;
  std::uint64_t data_ = 0;  // where the data begin
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places_;
};

const char* dtype_of(const NamedTensor& tensor) {
  for (const auto& [text, type] : kTypes)
    if (tensor.type == type) return text;
  throw InvalidArgumentError("safetensors has no dtype for '" + tensor.name + "', which is " +
                             name_of(tensor.type));
}

}  // namespace

Contents parse_safetensors(const std::vector<unsigned char>& bytes, const std::string& path) {
  return Parser(bytes, path).parse();
}

std::vector<std::vector<unsigned char>> make_safetensors(const Contents& contents) {
  require_utf8_names(contents, "safetensors");
  require_utf8_notes(contents, "safetensors");
  Json json = Json::object();
  if (!contents.notes.empty()) json[kMetadata] = contents.notes;
  std::vector<std::vector<unsigned char>> parts(1);
  std::uint64_t at = 0;
  for (const NamedTensor& tensor : contents.tensors) {
    if (tensor.name == kMetadata) {
      throw InvalidArgumentError("a tensor in a safetensors file cannot be named '" + tensor.name +
                                 "': the file keeps its metadata under that name");
    }
    json[tensor.name] = {{"dtype", dtype_of(tensor)},
                         {"shape", tensor.shape},
                         {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
    parts.push_back(tensor.bytes);
  }
  std::string header = json.dump();
  header.append((8 - header.size() % 8) % 8, ' ');  // aligns the data
  const std::uint64_t length = header.size();
  parts[0].resize(sizeof length);
  std::memcpy(parts[0].data(), &length, sizeof length);
  parts[0].insert(parts[0].end(), header.begin(), header.end());
  return parts;
}

}  // namespace kolo::tools
