#include "coordinator/descriptor.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/ranks.hpp"

namespace kolo {
namespace {

std::string show_number(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);  // as short as is exact
  return error == std::errc() ? std::string(text, end) : "?";
}

// A field that ranks must agree on; of tensor `at`, or of the whole. Plain functions: nothing here
// is destroyed at exit, when the engine's thread may still run.
struct Field {
  const char* name;
  std::string (*show)(const Descriptor& descriptor, std::size_t at);
  bool of_a_tensor = false;
};

std::string show_dtype(const Descriptor& d, std::size_t at) {
  const TensorSpec& tensor = d.tensors[at];
  return tensor.element.empty() ? name_of(tensor.dtype) : tensor.element;
}

std::string show_shape(const Descriptor& d, std::size_t at) {
  std::vector<std::int64_t> shape = d.tensors[at].shape;
  if (!d.tensors[at].element.empty() && !shape.empty()) shape.pop_back();
  std::string text = to_string(shape);
  if (d.has_own_rows()) text.insert(1, shape.empty() ? "*" : "*, ");
  return text;
}

std::string show_order(const Descriptor& d, std::size_t at) {
  const std::vector<std::int64_t>& order = d.tensors[at].order;
  return order.empty() ? "contiguous" : "dimensions in the order " + to_string(order);
}

// The fields in the order in which a difference is reported; the first one says most.
constexpr Field kOperation = {
    "operation", [](const Descriptor& d, std::size_t) { return std::string(name_of(d.kind)); }};
constexpr Field kFieldsOfAll[] = {
    {"content",
     [](const Descriptor& d, std::size_t) { return d.content.empty() ? "tensors" : d.content; }},
    {"number of tensors",
     [](const Descriptor& d, std::size_t) { return std::to_string(d.tensors.size()); }},
    {"reduce operator",
     [](const Descriptor& d, std::size_t) { return std::string(name_of(d.op)); }},
    {"device", [](const Descriptor& d, std::size_t) { return std::string(name_of(d.device)); }},
    {"root rank", [](const Descriptor& d, std::size_t) { return std::to_string(d.root); }},
    {"destination", [](const Descriptor& d, std::size_t) { return std::to_string(d.destination); }},
    {"prescale factor", [](const Descriptor& d, std::size_t) { return show_number(d.prescale); }},
    {"postscale factor", [](const Descriptor& d, std::size_t) { return show_number(d.postscale); }},
};
constexpr Field kFieldsOfATensor[] = {
    {"name", [](const Descriptor& d, std::size_t at) { return "'" + d.tensors[at].name + "'"; },
     true},
    {"dtype", show_dtype, true},
    {"shape", show_shape, true},
    {"memory", show_order, true},
};

// Returns "shape: a on rank 0; b on ranks 1, 2", or an empty text if the field is equal everywhere.
// The texts are exact, so equal texts mean equal values.
std::string field_difference(const std::vector<const Descriptor*>& by_rank,
                             const std::vector<int>& names, const Field& field, std::size_t at) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const std::string value = field.show(*by_rank[rank], at);
    auto group = groups.begin();
    while (group != groups.end() && group->first != value) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
    group->second.push_back(names[rank]);
  }
  if (groups.size() < 2) return {};
  std::string text;
  for (auto& [value, ranks] : groups) {
    std::sort(ranks.begin(), ranks.end());
    text += (text.empty() ? ": " : "; ") + value + " on " + rank_list(ranks);
  }
  if (!field.of_a_tensor || by_rank[0]->tensors.size() == 1) return field.name + text;
  const std::string& name = by_rank[0]->tensors[at].name;
  return std::string(field.name) + " of tensor " + std::to_string(at) +
         (name.empty() ? "" : " ('" + name + "' on rank " + std::to_string(names[0]) + ")") + text;
}

}  // namespace

std::size_t TensorSpec::count() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::size_t Descriptor::bytes() const {
  std::size_t bytes = 0;
  for (const TensorSpec& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

std::int64_t rows_of(std::int64_t rows, int rank, int size) {
  return rows / size + (rank < rows % size ? 1 : 0);
}

std::string describe_difference(const std::vector<const Descriptor*>& by_rank,
                                const std::vector<int>& ranks) {
  std::vector<std::string> differences;
  const auto look_at = [&](const Field& field, std::size_t at) {
    std::string difference = field_difference(by_rank, ranks, field, at);
    if (!difference.empty()) differences.push_back(std::move(difference));
  };
  look_at(kOperation, 0);
  if (!differences.empty()) return differences.front();  // nothing else can be compared
  for (const Field& field : kFieldsOfAll) look_at(field, 0);
  std::size_t tensors = by_rank[0]->tensors.size();
  for (const Descriptor* descriptor : by_rank)
    tensors = std::min(tensors, descriptor->tensors.size());
  const std::size_t before = differences.size();
  for (std::size_t at = 0; at < tensors && differences.size() == before; ++at) {
    for (const Field& field : kFieldsOfATensor) look_at(field, at);
  }
  std::string text;
  for (const std::string& difference : differences) text += (text.empty() ? "" : ". ") + difference;
  return text;
}

}  // namespace kolo
