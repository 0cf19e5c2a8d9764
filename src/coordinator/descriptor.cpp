#include "coordinator/descriptor.hpp"

#include <charconv>
#include <utility>

namespace kolo {
namespace {

std::string show_number(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);  // as short as is exact
  return error == std::errc() ? std::string(text, end) : "?";
}

// A field that ranks must agree on. Plain functions: nothing here is destroyed at exit, when the
// engine's thread may still run.
struct Field {
  const char* name;
  bool (*equal)(const Descriptor& a, const Descriptor& b);
  std::string (*show)(const Descriptor& descriptor);
};

// In the order in which a difference is reported; the first that differs says most.
constexpr Field kFields[] = {
    {"operation", [](const Descriptor& a, const Descriptor& b) { return a.kind == b.kind; },
     [](const Descriptor& d) { return std::string(name_of(d.kind)); }},
    {"dtype", [](const Descriptor& a, const Descriptor& b) { return a.dtype == b.dtype; },
     [](const Descriptor& d) { return std::string(name_of(d.dtype)); }},
    {"shape", [](const Descriptor& a, const Descriptor& b) { return a.shape == b.shape; },
     [](const Descriptor& d) { return to_string(d.shape); }},
    {"reduce operator", [](const Descriptor& a, const Descriptor& b) { return a.op == b.op; },
     [](const Descriptor& d) { return std::string(name_of(d.op)); }},
    {"root rank", [](const Descriptor& a, const Descriptor& b) { return a.root == b.root; },
     [](const Descriptor& d) { return std::to_string(d.root); }},
    {"prescale factor",
     [](const Descriptor& a, const Descriptor& b) { return a.prescale == b.prescale; },
     [](const Descriptor& d) { return show_number(d.prescale); }},
    {"postscale factor",
     [](const Descriptor& a, const Descriptor& b) { return a.postscale == b.postscale; },
     [](const Descriptor& d) { return show_number(d.postscale); }},
};

// "a on rank 0; b on ranks 1, 2", or nothing if the field is equal everywhere.
std::string field_difference(const std::vector<const Descriptor*>& by_rank, const Field& field) {
  std::vector<std::pair<const Descriptor*, std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto group = groups.begin();
    while (group != groups.end() && !field.equal(*group->first, *by_rank[rank])) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {by_rank[rank], {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (groups.size() < 2) return {};
  std::string text;
  for (const auto& [descriptor, ranks] : groups) {
    text += (text.empty() ? "" : "; ") + field.show(*descriptor) + " on " + rank_list(ranks);
  }
  return text;
}

}  // namespace

std::size_t Descriptor::count() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::string describe_difference(const std::vector<const Descriptor*>& by_rank) {
  std::string text;
  for (const Field& field : kFields) {
    const std::string difference = field_difference(by_rank, field);
    if (!difference.empty()) {
      text += (text.empty() ? "" : ". ") + std::string(field.name) + ": " + difference;
    }
  }
  return text;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i + 1) {
      text += "-" + std::to_string(ranks[last]);
    } else if (last == i + 1) {
      text += ", " + std::to_string(ranks[last]);
    }
    i = last + 1;
  }
  return text;
}

}  // namespace kolo
