// An array in a NumPy file (.npy), read by rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/array.hpp"
#include "data/contiguous_rows.hpp"
#include "data/data_file.hpp"
#include "data/npy.hpp"

namespace kolo::data {

class NpyFile : public Array {
 public:
  // Throws DataError if parse_npy() does, and for an array without dimensions.
  explicit NpyFile(const std::string& path);

  const ArrayForm& form() const override { return form_; }
  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) const override;

 private:
  explicit NpyFile(const std::shared_ptr<const DataFile>& file);
  NpyFile(const std::shared_ptr<const DataFile>& file, const NpyArray& array);

  const std::shared_ptr<const DataFile> file_;
  const ArrayForm form_;
  const std::unique_ptr<RowReader> reader_;
};

}  // namespace kolo::data
