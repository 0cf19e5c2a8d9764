// HDF5's types for the contents of checkpoints, in the forms that h5py writes and reads.
#pragma once

#include <array>
#include <optional>

#include "core/element_type.hpp"
#include "hdf5/library.hpp"

namespace kolo::hdf5 {

class Types {
 public:
  Types();

  // Returns the stored type, little endian on every machine. float8 types are stored as uint8;
  // their name must be stored with them.
  hid_t of(ElementType type) const { return types_[static_cast<std::size_t>(type)].get(); }
  // Returns the element type that is stored in this form, or nothing if there is none.
  std::optional<ElementType> find(hid_t stored) const;

 private:
  std::array<Id, kElementTypeCount> types_;
};

// Makes the type of UTF-8 text with a fixed length in bytes.
Id text_type(std::size_t length);

}  // namespace kolo::hdf5
