// libFuzzer's entry to the control plane: bytes as they may come from a peer. Whatever they are,
// decoding them and handling what they say ends, with an error or without.
#include <cstddef>
#include <cstdint>

#include "coordinator/negotiator.hpp"
#include "coordinator/participant.hpp"

namespace {

constexpr int kRanks = 3;

// The first byte says whose report it is, and where each next one begins.
void coordinate(const std::vector<std::byte>& bytes) {
  kolo::Negotiator negotiator({{0, 1, 2}, {}});
  const std::size_t pieces = 1 + static_cast<std::size_t>(bytes[0]) % 7;
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto begin =
        bytes.begin() + 1 + static_cast<std::ptrdiff_t>(i * (bytes.size() - 1) / pieces);
    const auto end =
        bytes.begin() + 1 + static_cast<std::ptrdiff_t>((i + 1) * (bytes.size() - 1) / pieces);
    kolo::wire::Report report;
    if (!kolo::wire::decode(std::vector<std::byte>(begin, end), report).is_ok()) continue;
    const int rank = (static_cast<int>(bytes[0]) / 7 + static_cast<int>(i)) % kRanks;
    if (!negotiator.handle(rank, report).is_ok()) return;
    negotiator.take_decisions();
  }
}

void take_part(const std::vector<std::byte>& bytes) {
  kolo::wire::Decisions decisions;
  if (!kolo::wire::decode(bytes, decisions).is_ok()) return;
  kolo::Participant participant(1, 100);
  const kolo::Descriptor descriptor;
  participant.submit({1, "", descriptor, false, false, {}});
  participant.submit({2, "a", descriptor, true, false, {}});
  participant.submit({3, "b", descriptor, false, true, {}});
  participant.wanted(kolo::name_space_of(descriptor, false), "a");
  std::vector<kolo::Participant::Action> actions;
  const bool valid = participant.apply(decisions, actions).is_ok();
  participant.take_report();
  if (valid) participant.leave();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto* first = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> bytes(first, first + size);
  coordinate(bytes);
  take_part(bytes);
  return 0;
}
