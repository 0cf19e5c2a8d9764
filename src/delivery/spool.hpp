// Stores batches that were loaded ahead: in memory or, if there are many, in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "delivery/message.hpp"
#include "delivery/parcel.hpp"

namespace kolo::delivery {

// Any thread may call.
class Spool {
 public:
  // A stored batch. Its destructor frees its space.
  class Kept;

  // Keeps up to `memory_bytes` in memory, and the rest in a file in this folder. Nobody else sees
  // the file, and it vanishes with the process. An empty name means no file. Throws FileError if
  // the folder cannot be written.
  Spool(std::size_t memory_bytes, const std::string& folder);

  // Stores a batch. Throws FileError if the file cannot take it.
  Kept keep(Parcel parcel);
  // Whether the memory is used up and there is no file.
  bool is_full() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

class Spool::Kept {
 public:
  Kept(Kept&& other) noexcept;
  Kept& operator=(Kept&& other) noexcept;
  ~Kept();

  // Returns the batch. May be called once. Throws FileError if it cannot be read back.
  Parcel take();

 private:
  friend class Spool;
  Kept() = default;
  void give_back() noexcept;

  std::shared_ptr<State> state_;
  std::size_t memory_ = 0;        // bytes of the parcel
  std::optional<Parcel> parcel_;  // if it is in memory
  BatchPlaces places_;            // otherwise: its places in the file
  std::uint64_t offset_ = 0;
};

}  // namespace kolo::delivery
