// Arrays that are read by rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/element_type.hpp"
#include "data/data_error.hpp"

namespace kolo::data {

// The element type and shape of an array. A row is the part with one index in dimension 0.
class ArrayForm {
 public:
  ArrayForm() = default;
  // Throws DataError, which names `what`, if the array has no dimensions, or its size in bytes is
  // more than a machine can count.
  ArrayForm(ElementType type, std::vector<std::int64_t> shape, const std::string& what)
      : type_(type), shape_(std::move(shape)) {
    if (shape_.empty())
      fail(what, "is a single number", "give an array whose dimension 0 counts the samples");
    const std::optional<std::uint64_t> of_row = elements_of({shape_.begin() + 1, shape_.end()});
    const std::optional<std::uint64_t> of_all = elements_of(shape_);
    constexpr std::uint64_t kMost = std::uint64_t{1} << 58U;    // elements have at most 16 bytes
    constexpr std::int64_t kMostRows = std::int64_t{1} << 40U;  // matters if rows are empty
    if (!of_row || !of_all || *of_row > kMost || *of_all > kMost || shape_[0] > kMostRows)
      fail(what, "is larger than any file", kGetAgain);
    row_bytes_ = static_cast<std::size_t>(*of_row) * size_of(type);
  }

  ElementType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::size_t rows() const { return static_cast<std::size_t>(shape_.front()); }
  std::size_t row_bytes() const { return row_bytes_; }

 private:
  ElementType type_ = ElementType::kFloat32;
  std::vector<std::int64_t> shape_{0};
  std::size_t row_bytes_ = size_of(ElementType::kFloat32);
};

// An array in a file or in memory.
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  virtual ~Array() = default;

  virtual const ArrayForm& form() const = 0;
  // Reads the rows with these numbers, each below form().rows(), into `to`, which must have room
  // for rows.size() * form().row_bytes(). Elements have the machine's byte order. Safe from several
  // threads at once. Throws DataError, also if the file has changed since it was opened.
  virtual void read(const std::vector<std::size_t>& rows, std::uint8_t* to) const = 0;
};

}  // namespace kolo::data
