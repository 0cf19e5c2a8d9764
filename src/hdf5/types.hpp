// HDF5's types for what checkpoints hold, in the forms that h5py makes and understands.
#pragma once

#include <array>
#include <optional>

#include "core/element_type.hpp"
#include "hdf5/library.hpp"

namespace kolo::hdf5 {

class Types {
 public:
  Types();

  // Little endian, whatever the machine. float8 types are HDF5's uint8: their name goes with them.
  hid_t of(ElementType type) const { return types_[static_cast<std::size_t>(type)].get(); }
  // The element type that is stored so; nothing if there is none.
  std::optional<ElementType> find(hid_t stored) const;

 private:
  std::array<Id, kElementTypeCount> types_;
};

// Text of a fixed length in bytes, UTF-8.
Id text_type(std::size_t length);

}  // namespace kolo::hdf5
