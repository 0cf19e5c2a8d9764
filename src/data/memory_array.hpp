// An array in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "data/array.hpp"

namespace kolo::data {

class MemoryArray : public Array {
 public:
  // `bytes`: all elements of the form, row-major, in the machine's byte order.
  MemoryArray(ArrayForm form, std::vector<std::uint8_t> bytes)
      : form_(std::move(form)), bytes_(std::move(bytes)) {}

  const ArrayForm& form() const override { return form_; }
  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) const override {
    const std::size_t size = form_.row_bytes();
    for (const std::size_t row : rows) to = std::copy_n(bytes_.data() + row * size, size, to);
  }

 private:
  const ArrayForm form_;
  const std::vector<std::uint8_t> bytes_;
};

}  // namespace kolo::data
