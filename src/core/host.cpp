#include "core/host.hpp"

#include <unistd.h>

#include <array>

namespace kolo {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "an unknown host";
  return name.data();
}

}  // namespace kolo
