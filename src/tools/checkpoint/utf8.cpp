#include "tools/checkpoint/utf8.hpp"

#include <nlohmann/json.hpp>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

void require_utf8(const std::string& what, const std::string& text, const std::string& format) {
  using nlohmann::json;
  try {
    static_cast<void>(json(text).dump());
  } catch (const json::type_error&) {
    throw InvalidArgumentError(what + " " +
                               json(text).dump(-1, ' ', true, json::error_handler_t::replace) +
                               " is not UTF-8, which " + format + " needs");
  }
}

}  // namespace

void require_utf8_names(const Contents& contents, const std::string& format) {
  for (const NamedTensor& tensor : contents.tensors)
    require_utf8("the tensor's name", tensor.name, format);
}

void require_utf8_notes(const Contents& contents, const std::string& format) {
  for (const auto& [name, text] : contents.notes) {
    require_utf8("the note's name", name, format);
    require_utf8("the note '" + name + "':", text, format);
  }
}

}  // namespace kolo::tools
