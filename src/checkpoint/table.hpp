// The contents of a checkpoint: the tensors with their places in the file, and the values.
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

// A value that is stored as an attribute. Lists have up to kMostListed elements, texts up to
// kLongestText bytes, because HDF5 puts an attribute of more than 4 KiB among the data. Longer ones
// go into a dataset.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<double>>;
inline constexpr std::size_t kMostListed = 256;
inline constexpr std::size_t kLongestText = 2048;

// Whether a text can be stored as an attribute. HDF5 pads texts with zero bytes.
bool can_be_value(const std::string& text);

bool same(const Value& left, const Value& right);  // equal bits, so that NaN equals itself
std::string to_string(const Value& value);

// The meaning of a dataset's bytes.
enum class Kind : std::uint8_t {
  kTensor = 0,
  kPerRank = 1,  // one tensor per rank, stacked along an additional dimension 0
  kText = 2,     // UTF-8, as uint8
  kArchive = 3,  // as LibTorch's OutputArchive writes it, as uint8
};

struct TensorEntry {
  std::string name;  // a path, as join_name() makes it
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  Kind kind = Kind::kTensor;
  std::uint64_t offset = 0;  // in the file, in bytes; 0 if there are no elements

  std::uint64_t bytes() const;  // of all elements
};

struct Table {
  std::vector<TensorEntry> tensors;     // in the order of saving
  std::map<std::string, Value> values;  // by path

  const TensorEntry* find(const std::string& name) const;
  // Returns the tensor for which this name is an alias, if any. An alias is a text with the path of
  // a tensor of the same component.
  std::optional<std::string> alias(const std::string& name) const;
};

// Joins the parts of a path with '/'. '/', '%' and zero bytes within a part, and parts that are "."
// or "..", are escaped with %XX, and an empty part becomes '%', because HDF5 could not have them as
// names.
std::string join_name(const std::vector<std::string>& parts);
std::vector<std::string> split_name(const std::string& path);  // the inverse

// Returns the name of the text that lists a component's submodules without tensors.
std::string modules_name(const std::string& component);

// A checkpoint's facts about itself. In a table these are values whose paths begin with "kolo/".
struct About {
  std::int64_t step = 0;
  std::int64_t ranks = 1;        // number of ranks that saved it
  std::string saved_at;          // UTC: "2026-11-22T20:13:47Z"
  std::string version;           // kolo's
  std::optional<double> metric;  // as given to save()
};
void put(const About& about, Table& table);
About about_of(const Table& table);  // missing values keep the defaults above

}  // namespace kolo::checkpoint
