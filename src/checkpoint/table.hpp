// What is in a checkpoint, and where: the tensors with their places in the file, and the values.
// docs/checkpoint-format.md describes the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/element_type.hpp"

namespace kolo::checkpoint {

// What becomes an attribute. Lists have up to kMostListed elements, texts up to kLongestText bytes:
// HDF5 puts an attribute of more than 4 KiB among the data. Longer ones go into a dataset.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<double>>;
inline constexpr std::size_t kMostListed = 256;
inline constexpr std::size_t kLongestText = 2048;

// Whether a text can be an attribute. HDF5 pads texts with zero bytes.
bool can_be_value(const std::string& text);

bool same(const Value& left, const Value& right);  // equal bits, so that NaN equals itself
std::string to_string(const Value& value);

// What the bytes of a dataset mean.
enum class Kind : std::uint8_t {
  kTensor = 0,
  kPerRank = 1,  // a tensor of each rank, one after the other along a dimension 0 of their own
  kText = 2,     // UTF-8, as uint8
  kArchive = 3,  // as LibTorch's OutputArchive writes it, as uint8
};

struct TensorEntry {
  std::string name;  // a path: parts that join_name() has put together
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  Kind kind = Kind::kTensor;
  std::uint64_t offset = 0;  // in the file, in bytes; 0 where there are no elements

  std::uint64_t bytes() const;  // of all elements
};

struct Table {
  std::vector<TensorEntry> tensors;     // in the order in which they were saved
  std::map<std::string, Value> values;  // by path

  const TensorEntry* find(const std::string& name) const;
  // The tensor that has this name as a second one: a text that is the path of a tensor of the same
  // component.
  std::optional<std::string> alias(const std::string& name) const;
};

// The parts of a path, with '/' between them; '/' and '%' within a part, and parts that are "", "."
// or "..", are written with %XX, as HDF5 could not have them as names.
std::string join_name(const std::vector<std::string>& parts);
std::vector<std::string> split_name(const std::string& path);  // the inverse

// The text that lists a module's submodules without tensors, by the component's name.
std::string modules_name(const std::string& component);

// What a checkpoint says of itself. In a table these are values whose paths begin with "kolo/".
struct About {
  std::int64_t step = 0;
  std::int64_t ranks = 1;        // that saved it
  std::string saved_at;          // UTC: "2026-11-22T20:13:47Z"
  std::string version;           // kolo's
  std::optional<double> metric;  // as given to save()
};
void put(const About& about, Table& table);
About about_of(const Table& table);  // what is missing stays as it is above

}  // namespace kolo::checkpoint
