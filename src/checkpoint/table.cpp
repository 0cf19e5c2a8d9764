#include "checkpoint/table.hpp"

#include <bit>
#include <sstream>

namespace kolo::checkpoint {
namespace {

bool same_bits(double left, double right) {
  return std::bit_cast<std::uint64_t>(left) == std::bit_cast<std::uint64_t>(right);
}

template <typename T>
std::string listed(const std::vector<T>& list) {
  std::ostringstream text;
  text.precision(17);
  text << '[';
  for (std::size_t i = 0; i < list.size(); ++i) text << (i > 0 ? ", " : "") << list[i];
  text << ']';
  return text.str();
}

void append_escaped(std::string& path, char byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  const auto value = static_cast<unsigned char>(byte);
  path += '%';
  path += kDigits[value / 16];
  path += kDigits[value % 16];
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string unescaped(const std::string& part) {
  if (part == "%") return "";
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const bool escaped =
        part[i] == '%' && i + 2 < part.size() && digit(part[i + 1]) >= 0 && digit(part[i + 2]) >= 0;
    if (!escaped) {
      text += part[i];
      continue;
    }
    text += static_cast<char>(digit(part[i + 1]) * 16 + digit(part[i + 2]));
    i += 2;
  }
  return text;
}

constexpr const char* kStep = "kolo/step";
constexpr const char* kRanks = "kolo/ranks";
constexpr const char* kSavedAt = "kolo/saved_at";
constexpr const char* kVersion = "kolo/version";
constexpr const char* kMetric = "kolo/metric";

template <typename T>
void take(const Table& table, const char* path, T& to) {
  const auto found = table.values.find(path);
  if (found == table.values.end()) return;
  if (const T* value = std::get_if<T>(&found->second)) to = *value;
}

}  // namespace

bool can_be_value(const std::string& text) {
  return text.size() <= kLongestText && (text.empty() || text.back() != '\0');
}

bool same(const Value& left, const Value& right) {
  if (left.index() != right.index()) return false;
  if (const auto* value = std::get_if<double>(&left))
    return same_bits(*value, std::get<double>(right));
  if (const auto* list = std::get_if<std::vector<double>>(&left)) {
    const auto& other = std::get<std::vector<double>>(right);
    if (list->size() != other.size()) return false;
    for (std::size_t i = 0; i < list->size(); ++i)
      if (!same_bits((*list)[i], other[i])) return false;
    return true;
  }
  return left == right;
}

std::string to_string(const Value& value) {
  struct Shown {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const {
      std::ostringstream text;
      text.precision(17);
      text << d;
      return text.str();
    }
    std::string operator()(const std::string& s) const { return '"' + s + '"'; }
    std::string operator()(const std::vector<std::int64_t>& list) const { return listed(list); }
    std::string operator()(const std::vector<double>& list) const { return listed(list); }
  };
  return std::visit(Shown(), value);
}

std::uint64_t TensorEntry::bytes() const {
  return elements_of(shape).value_or(0) * size_of(type);
}

const TensorEntry* Table::find(const std::string& name) const {
  for (const TensorEntry& entry : tensors)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::optional<std::string> Table::alias(const std::string& name) const {
  const auto value = values.find(name);
  const auto* of = value == values.end() ? nullptr : std::get_if<std::string>(&value->second);
  const std::string component = name.substr(0, name.find('/') + 1);
  if (of == nullptr || component.empty() || !of->starts_with(component) || find(*of) == nullptr)
    return std::nullopt;
  return *of;
}

std::string join_name(const std::vector<std::string>& parts) {
  std::string path;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) path += '/';
    if (parts[i].empty()) path += '%';
    const bool dots = parts[i] == "." || parts[i] == "..";
    for (const char byte : parts[i]) {
      if (byte == '/' || byte == '%' || byte == '\0' || dots) {
        append_escaped(path, byte);
      } else {
        path += byte;
      }
    }
  }
  return path;
}

std::vector<std::string> split_name(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t slash = path.find('/', begin);
    parts.push_back(unescaped(path.substr(begin, slash - begin)));
    if (slash == std::string::npos) return parts;
    begin = slash + 1;
  }
}

std::string modules_name(const std::string& component) {
  return join_name({"kolo", "modules", component});
}

void put(const About& about, Table& table) {
  table.values[kStep] = about.step;
  table.values[kRanks] = about.ranks;
  table.values[kSavedAt] = about.saved_at;
  table.values[kVersion] = about.version;
  if (about.metric) table.values[kMetric] = *about.metric;
}

About about_of(const Table& table) {
  About about;
  take(table, kStep, about.step);
  take(table, kRanks, about.ranks);
  take(table, kSavedAt, about.saved_at);
  take(table, kVersion, about.version);
  const auto metric = table.values.find(kMetric);
  if (metric != table.values.end())
    if (const double* value = std::get_if<double>(&metric->second)) about.metric = *value;
  return about;
}

}  // namespace kolo::checkpoint
