#include "tools/data/inspect.hpp"

#include <cstdio>
#include <functional>
#include <iostream>
#include <optional>
#include <vector>

#include "data/hdf5_array.hpp"
#include "data/hdf5_file.hpp"
#include "data/npy.hpp"
#include "kolo/error.h"
#include "tools/data/input.hpp"
#include "tools/data/npz.hpp"
#include "tools/data/pieces.hpp"
#include "tools/printable.hpp"

namespace kolo::tools {
namespace {

template <class Extents>
std::string shape_text(const Extents& shape) {
  std::string text;
  for (const auto extent : shape)
    text.append(text.empty() ? "" : ", ").append(std::to_string(extent));
  return "[" + text + "]";
}

std::string hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string samples_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " sample" : " samples");
}

void print_array(const std::string& name, const std::string& type, const std::string& shape,
                 const std::string& rest, std::ostream& out) {
  out << "  " << printable(name) << ": " << type << " " << shape << rest << "\n";
}

void print_hdf5(const std::string& path, std::ostream& out) {
  for (const data::StoredArray& array : data::arrays_in(path)) {
    std::string rest = ", " + array.layout;
    for (const std::string& filter : array.filters) rest += ", " + filter;
    rest += ", " + std::to_string(array.stored_bytes) + " bytes";
    if (array.checksum) rest += ", checksum " + hex(*array.checksum);
    print_array(array.name, array.type ? kolo::name_of(*array.type) : "no numbers",
                shape_text(array.shape), printable(rest), out);
  }
}

void print_not_read(const std::string& name, const std::string& why, std::ostream& out) {
  out << "  " << printable(name) << ": not read: " << printable(why) << "\n";
}

// Calls `use` with the name of each array of a file or folder and the array.
void for_each_array(const std::string& path, DataFormat format, const Choice& choice,
                    const std::function<void(const std::string&, const data::Array&)>& use,
                    std::ostream& out) {
  if (format == DataFormat::kNpz) {
    for (const std::string& name : arrays_in_npz(path)) {
      try {
        use(name, *read_npz(path, name));
      } catch (const data::UnsupportedArrayError& error) {
        print_not_read(name, error.what(), out);
      }
    }
    return;
  }
  const Samples opened = open_samples(path, choice);
  use("samples", *opened.samples);
  if (opened.targets) use("targets", *opened.targets);
}

void print_form(const std::string& name, const data::ArrayForm& form, std::ostream& out) {
  print_array(name, kolo::name_of(form.type()), shape_text(form.shape()),
              ", " + std::to_string(form.rows() * form.row_bytes()) + " bytes", out);
}

// Returns whether the array is whole.
bool verify_array(const std::string& name, const data::Array& array,
                  std::optional<std::uint64_t> expected, std::ostream& out) {
  const std::uint64_t checksum = for_each_piece(array, 1, [](const RowPiece&) {});
  out << "  " << printable(name) << ": " << samples_text(array.form().rows()) << ", checksum "
      << hex(checksum);
  if (!expected) {
    out << " (no checksum is stored to compare with)\n";
    return true;
  }
  const bool is_whole = checksum == *expected;
  out << (is_whole ? ", as stored\n" : ", DAMAGED: " + hex(*expected) + " is stored\n");
  return is_whole;
}

// Calls `verify`, which returns whether the array is whole. An array that kolo does not read counts
// as whole, and one that cannot be read does not.
bool verify_next(const std::string& name, const std::function<bool()>& verify, std::ostream& out) {
  try {
    return verify();
  } catch (const data::UnsupportedArrayError& error) {
    print_not_read(name, error.what(), out);
    return true;
  } catch (const Error& error) {
    out << "  " << printable(name) << ": CANNOT BE READ: " << printable(error.what()) << "\n";
    return false;
  }
}

bool verify_hdf5(const std::string& path, std::ostream& out) {
  bool is_whole = true;
  for (const data::StoredArray& stored : data::arrays_in(path)) {
    const auto verify = [&] {
      if (!stored.type || stored.shape.empty())
        throw data::UnsupportedArrayError("it is not an array of numbers");
      const data::Hdf5Array array(path, stored.name, 0);
      return verify_array(stored.name, array, stored.checksum, out);
    };
    is_whole = verify_next(stored.name, verify, out) && is_whole;
  }
  return is_whole;
}

bool verify_npz(const std::string& path, std::ostream& out) {
  bool is_whole = true;
  for (const std::string& name : arrays_in_npz(path)) {
    const auto verify = [&] {
      return verify_array(name, *read_npz(path, name), std::nullopt, out);
    };
    is_whole = verify_next(name, verify, out) && is_whole;
  }
  return is_whole;
}

}  // namespace

int data_info(const std::string& path, const Choice& choice, std::ostream& out) {
  const DataFormat format = data_format_of(path);
  out << printable(path) << ": " << name_of(format) << "\n";
  if (format == DataFormat::kHdf5) {
    print_hdf5(path, out);
    return 0;
  }
  for_each_array(
      path, format, choice,
      [&](const std::string& name, const data::Array& array) {
        print_form(name, array.form(), out);
      },
      out);
  return 0;
}

int data_verify(const std::string& path, const Choice& choice, std::ostream& out) {
  out << printable(path) << "\n";
  try {
    const DataFormat format = data_format_of(path);
    if (format == DataFormat::kHdf5) return verify_hdf5(path, out) ? 0 : 1;
    if (format == DataFormat::kNpz) return verify_npz(path, out) ? 0 : 1;
    for_each_array(
        path, format, choice,
        [&](const std::string& name, const data::Array& array) {
          verify_array(name, array, std::nullopt, out);
        },
        out);
    return 0;
  } catch (const Error& error) {
    out << "  CANNOT BE READ: " << printable(error.what()) << "\n";
    return 1;
  }
}

}  // namespace kolo::tools
