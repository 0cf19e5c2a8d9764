// Where batches that were loaded ahead wait: in memory, or in a file when there are many.
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
  // A batch that waits. Gives its place back when it is destroyed.
  class Kept;

  // Keeps up to `memory_bytes` in memory and the rest in a file of this folder, which nobody else
  // sees and which is gone with the process. Empty: no file. Throws FileError if the folder cannot
  // be written.
  Spool(std::size_t memory_bytes, const std::string& folder);

  // Throws FileError if the file cannot take it.
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

  // The batch, once. Throws FileError if it cannot be read back.
  Parcel take();

 private:
  friend class Spool;
  Kept() = default;
  void give_back() noexcept;

  std::shared_ptr<State> state_;
  std::size_t memory_ = 0;        // bytes of the parcel
  std::optional<Parcel> parcel_;  // if it is in memory
  BatchPlaces places_;            // otherwise: in the file
  std::uint64_t offset_ = 0;
};

}  // namespace kolo::delivery
