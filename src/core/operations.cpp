#include "core/operations.hpp"

#include <algorithm>

namespace kolo {

std::string upper_name_of(OpKind kind) {
  std::string name = name_of(kind);
  const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; };
  std::transform(name.begin(), name.end(), name.begin(), upper);
  return name;
}

std::string timeline_name_of(Medium medium, OpKind kind) {
  static constexpr std::array<const char*, 5> kPrefixes = {"LOCAL_", "SHM_", "MPI_", "STAGED_",
                                                           "NCCL_"};
  return kPrefixes[static_cast<std::size_t>(medium)] + upper_name_of(kind);
}

}  // namespace kolo
