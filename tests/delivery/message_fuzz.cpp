// libFuzzer's entry to the messages between training ranks and loaders; built with clang when
// KOLO_FUZZ is ON. What can be decoded comes out the same when it is encoded and decoded again, and
// the arrays of a batch lie within its memory.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "delivery/message.hpp"

namespace {

using namespace kolo::delivery;

template <typename Message>
void check(std::span<const std::byte> body) {
  const std::optional<Message> message = decode<Message>(body);
  if (message && decode<Message>(encode(*message)) != message) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  check<Hello>(bytes);
  check<Request>(bytes);
  check<Release>(bytes);
  check<Withdraw>(bytes);
  check<Welcome>(bytes);
  check<BatchPlaces>(bytes);
  check<Failure>(bytes);
  if (size >= kHeadBytes) (void)decode_head(bytes.first<kHeadBytes>());
  const std::optional<BatchPlaces> places = decode<BatchPlaces>(bytes);
  if (!places) return 0;
  for (const ArrayPlace& array : places->arrays) {
    if (array.offset > places->size || *bytes_of(array) > places->size - array.offset) std::abort();
  }
  return 0;
}
