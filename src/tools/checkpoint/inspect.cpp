#include "tools/checkpoint/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <sstream>

#include "checkpoint/file_system.hpp"
#include "checkpoint/header.hpp"
#include "checkpoint/reading.hpp"
#include "core/types.hpp"
#include "kolo/error.h"
#include "tools/printable.hpp"

namespace kolo::tools {
namespace {

using namespace checkpoint;

constexpr int kCannotRead = 2;

std::string megabytes(std::uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(bytes < 100'000'000 ? 1 : 0)
       << static_cast<double>(bytes) / 1e6 << " MB";
  return text.str();
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : system_files().list(folder))
    if (name.ends_with(".h5")) paths.emplace_back(folder).append("/").append(name);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string text_of(const Value& value) {
  return printable(to_string(value), "\n\t");
}

bool is_about_itself(const std::string& name) {
  return name.starts_with("kolo/");
}

std::string kind_of(const TensorEntry& entry) {
  switch (entry.kind) {
    case Kind::kTensor:
      return "";
    case Kind::kPerRank:
      return "  one of each rank";
    case Kind::kText:
      return "  text";
    case Kind::kArchive:
      return "  LibTorch archive";
  }
  return "";
}

bool verify_file(const std::string& path, std::ostream& out) {
  try {
    Reader reader(system_files(), path);
    bool is_whole = true;
    for (std::size_t i = 0; i < reader.table().tensors.size(); ++i) {
      try {
        reader.verify(i);
      } catch (const DataError& error) {
        out << "damaged  " << printable(error.what()) << "\n";
        is_whole = false;
      }
    }
    if (is_whole) {
      out << "whole    " << path << ": " << reader.table().tensors.size() << " tensors, "
          << megabytes(reader.file_size()) << "\n";
    }
    return is_whole;
  } catch (const NewerVersionError& error) {
    out << "newer    " << printable(error.what()) << "\n";
    return false;
  } catch (const DataError& error) {
    out << "damaged  " << printable(error.what()) << "\n";
    return false;
  }
}

// --- diff ---

// Converts an element to float64. Returns nothing for types that are only compared bit by bit.
std::optional<double> number(ElementType type, const unsigned char* at) {
  const auto as = [&](auto zero) {
    std::memcpy(&zero, at, sizeof zero);
    return static_cast<double>(zero);
  };
  switch (type) {
    case ElementType::kFloat32:
      return as(0.0F);
    case ElementType::kFloat64:
      return as(0.0);
    case ElementType::kBfloat16: {
      std::uint32_t bits = 0;
      std::memcpy(reinterpret_cast<unsigned char*>(&bits) + 2, at, 2);
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    case ElementType::kInt64:
      return as(std::int64_t{0});
    case ElementType::kInt32:
      return as(std::int32_t{0});
    default:
      return std::nullopt;
  }
}

std::string difference(const TensorEntry& entry, const std::vector<unsigned char>& left,
                       const std::vector<unsigned char>& right) {
  const std::size_t size = size_of(entry.type);
  std::uint64_t count = 0;
  double largest = 0;
  for (std::size_t at = 0; at < left.size(); at += size) {
    if (std::memcmp(left.data() + at, right.data() + at, size) == 0) continue;
    ++count;
    const auto one = number(entry.type, left.data() + at);
    const auto other = number(entry.type, right.data() + at);
    if (one && other) largest = std::max(largest, std::abs(*one - *other));
  }
  std::ostringstream text;
  text << count << " of " << left.size() / size << " elements differ";
  if (number(entry.type, left.data())) text << ", by up to " << largest;
  return text.str();
}

int diff_tensors(Reader& left, Reader& right, std::ostream& out) {
  int differences = 0;
  const auto tell = [&](const std::string& name, const std::string& what) {
    out << printable(name) << ": " << what << "\n";
    ++differences;
  };
  const auto only = [&](Reader& one, Reader& other) {
    for (const TensorEntry& entry : one.table().tensors)
      if (other.table().find(entry.name) == nullptr) tell(entry.name, "only in " + one.path());
  };
  only(left, right);
  only(right, left);
  for (std::size_t i = 0; i < left.table().tensors.size(); ++i) {
    const TensorEntry& one = left.table().tensors[i];
    const TensorEntry* other = right.table().find(one.name);
    if (other == nullptr) continue;
    if (one.type != other->type || one.shape != other->shape) {
      tell(one.name, std::string(name_of(one.type)) + to_string(one.shape) + " and " +
                         name_of(other->type) + to_string(other->shape));
      continue;
    }
    std::vector<unsigned char> left_bytes(one.bytes());
    std::vector<unsigned char> right_bytes(other->bytes());
    left.read(i, left_bytes.data());
    right.read(static_cast<std::size_t>(other - right.table().tensors.data()), right_bytes.data());
    if (left_bytes != right_bytes) tell(one.name, difference(one, left_bytes, right_bytes));
  }
  return differences;
}

int diff_values(const Reader& left, const Reader& right, std::ostream& out) {
  int differences = 0;
  const auto shown = [](const Reader& reader, const std::string& name) {
    const auto found = reader.table().values.find(name);
    return found == reader.table().values.end() ? "nothing" : text_of(found->second);
  };
  std::map<std::string, Value> all = left.table().values;
  all.insert(right.table().values.begin(), right.table().values.end());
  for (const auto& [name, value] : all) {
    if (is_about_itself(name)) continue;
    const auto one = left.table().values.find(name);
    const auto other = right.table().values.find(name);
    const bool has_both = one != left.table().values.end() && other != right.table().values.end();
    if (has_both && same(one->second, other->second)) continue;
    out << printable(name) << ": " << shown(left, name) << " and " << shown(right, name) << "\n";
    ++differences;
  }
  return differences;
}

}  // namespace

int list(const std::string& folder, std::ostream& out) {
  const std::vector<std::string> paths = files_in(folder);
  if (paths.empty()) {
    out << "no checkpoints in " << folder << "\n";
    return 0;
  }
  out << "      step  saved at              ranks        size  metric      file\n";
  for (const std::string& path : paths) {
    const std::string name = path.substr(folder.size() + 1);
    try {
      const Reader reader(system_files(), path);
      const About about = about_of(reader.table());
      std::ostringstream metric;
      if (about.metric) metric << *about.metric;
      out << std::setw(10) << about.step << "  " << std::left << std::setw(20) << about.saved_at
          << std::right << std::setw(7) << about.ranks << std::setw(12)
          << megabytes(reader.file_size()) << "  " << std::left << std::setw(10) << metric.str()
          << "  " << name << std::right << "\n";
    } catch (const NewerVersionError& error) {
      out << "     newer  " << printable(error.what()) << "\n";
    } catch (const Error& error) {
      out << "   damaged  " << printable(error.what()) << "\n";
    }
  }
  return 0;
}

int info(const std::string& path, std::ostream& out) {
  const Reader reader(system_files(), path);
  const About about = about_of(reader.table());
  out << path << "\n  step " << about.step << ", saved " << about.saved_at << " by " << about.ranks
      << (about.ranks == 1 ? " rank" : " ranks") << " with kolo " << about.version;
  if (about.metric) out << ", metric " << *about.metric;
  out << "\n";
  std::uint64_t bytes = 0;
  for (const TensorEntry& entry : reader.table().tensors) bytes += entry.bytes();
  out << "  " << reader.table().tensors.size() << " tensors, " << megabytes(bytes) << "; file "
      << megabytes(reader.file_size()) << "\n\nvalues\n";
  for (const auto& [name, value] : reader.table().values)
    if (!is_about_itself(name)) out << "  " << printable(name) << " = " << text_of(value) << "\n";
  out << "\ntensors\n";
  for (const TensorEntry& entry : reader.table().tensors) {
    out << "  " << printable(entry.name) << "  " << name_of(entry.type) << to_string(entry.shape)
        << kind_of(entry) << "\n";
  }
  return 0;
}

int verify(const std::string& path, std::ostream& out) {
  bool is_folder = false;
  try {
    is_folder = system_files().has_folder(path);
  } catch (const FileError&) {
    is_folder = false;  // a file, which is verified below
  }
  if (!is_folder) return verify_file(path, out) ? 0 : 1;
  const std::vector<std::string> paths = files_in(path);
  if (paths.empty()) out << "no checkpoints in " << path << "\n";
  int code = 0;
  for (const std::string& one : paths) {
    try {
      if (!verify_file(one, out)) code = std::max(code, 1);
    } catch (const FileError& error) {  // the other files are verified nevertheless
      out << "unread   " << printable(error.what()) << "\n";
      code = kCannotRead;
    }
  }
  return code;
}

int diff(const std::string& left, const std::string& right, std::ostream& out) {
  Reader one(system_files(), left);
  Reader other(system_files(), right);
  const int differences = diff_values(one, other, out) + diff_tensors(one, other, out);
  if (differences == 0) out << "the same tensors and values\n";
  return differences == 0 ? 0 : 1;
}

}  // namespace kolo::tools
