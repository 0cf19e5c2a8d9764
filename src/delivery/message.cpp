#include "delivery/message.hpp"

#include "core/byte_codec.hpp"

namespace kolo::delivery {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kMostDimensions = 64;  // LibTorch's limit
constexpr std::uint64_t kMostArrays = 16;
constexpr std::uint64_t kMostLoaders = 1024;
constexpr std::uint64_t kMost32 = 0xffffffffU;

void put(Bytes& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t get(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}

std::vector<std::int64_t> read_shape(ByteReader& reader) {
  std::vector<std::int64_t> shape = reader.numbers<std::int64_t>();
  if (shape.size() > kMostDimensions) reader.fail();
  return shape;
}

// Whether all arrays of a batch are aligned and lie within its memory.
bool are_inside(const BatchPlaces& places) {
  for (const ArrayPlace& array : places.arrays) {
    const std::optional<std::uint64_t> bytes = bytes_of(array);
    if (!bytes || array.offset > places.size || *bytes > places.size - array.offset) return false;
    if (array.offset % size_of(array.type) != 0) return false;
  }
  return true;
}

template <typename Message>
std::optional<Message> checked(const ByteReader& reader, Message message) {
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return message;
}

}  // namespace

std::optional<std::uint64_t> bytes_of(const ArrayPlace& array) {
  const std::optional<std::uint64_t> elements = elements_of(array.shape);
  if (!elements || *elements > kMostPayloadBytes / size_of(array.type)) return std::nullopt;
  return *elements * size_of(array.type);
}

Bytes encode(const FrameHead& head) {
  Bytes bytes;
  bytes.reserve(kHeadBytes);
  put(bytes, static_cast<std::uint64_t>(head.kind), 4);
  put(bytes, head.body, 4);
  put(bytes, head.id, 8);
  put(bytes, head.payload, 8);
  return bytes;
}

std::optional<FrameHead> decode_head(std::span<const std::byte, kHeadBytes> bytes) {
  const std::uint64_t kind = get(bytes, 0, 4);
  if (kind < 1 || kind > static_cast<std::uint64_t>(FrameKind::kError)) return std::nullopt;
  const FrameHead head{static_cast<FrameKind>(kind), static_cast<std::uint32_t>(get(bytes, 4, 4)),
                       get(bytes, 8, 8), get(bytes, 16, 8)};
  if (head.body > kMostBodyBytes || head.payload > kMostPayloadBytes) return std::nullopt;
  return head;
}

Bytes encode(const Hello& hello) {
  ByteWriter writer;
  writer.number(kVersion);
  writer.text(hello.token);
  writer.number(hello.rank);
  return writer.take();
}

template <>
std::optional<Hello> decode(std::span<const std::byte> body) {
  ByteReader reader(body);
  if (reader.number() != kVersion) return std::nullopt;
  Hello hello;
  hello.token = reader.text();
  hello.rank = static_cast<std::uint32_t>(reader.number_up_to(kMost32));
  return checked(reader, std::move(hello));
}

Bytes encode(const Request& request) {
  ByteWriter writer;
  writer.text(request.loader);
  writer.number(request.epoch);
  writer.number(request.position);
  writer.numbers(request.samples);
  return writer.take();
}

template <>
std::optional<Request> decode(std::span<const std::byte> body) {
  ByteReader reader(body);
  Request request;
  request.loader = reader.text();
  request.epoch = reader.number();
  request.position = reader.number();
  request.samples = reader.numbers<std::uint64_t>();
  return checked(reader, std::move(request));
}

Bytes encode(const Release& release) {
  ByteWriter writer;
  writer.numbers(release.slots);
  return writer.take();
}

template <>
std::optional<Release> decode(std::span<const std::byte> body) {
  ByteReader reader(body);
  return checked(reader, Release{reader.numbers<std::uint32_t>()});
}

Bytes encode(const Withdraw& withdraw) {
  ByteWriter writer;
  writer.text(withdraw.loader);
  return writer.take();
}

template <>
std::optional<Withdraw> decode(std::span<const std::byte> body) {
  ByteReader reader(body);
  return checked(reader, Withdraw{reader.text()});
}

Bytes encode(const Welcome& welcome) {
  ByteWriter writer;
  writer.number(kVersion);
  writer.number(welcome.workers);
  writer.number(welcome.loaders.size());
  for (const LoaderInfo& loader : welcome.loaders) {
    writer.text(loader.name);
    writer.number(loader.samples);
    writer.number(loader.transforms);
    writer.text(loader.settings);
  }
  return writer.take();
}

template <>
std::optional<Welcome> decode(std::span<const std::byte> body) {
  ByteReader reader(body);
  if (reader.number() != kVersion) return std::nullopt;
  Welcome welcome;
  welcome.workers = static_cast<std::uint32_t>(reader.number_up_to(kMost32));
  welcome.loaders.resize(static_cast<std::size_t>(reader.number_up_to(kMostLoaders)));
  for (LoaderInfo& loader : welcome.loaders) {
    loader.name = reader.text();
    loader.samples = reader.number();
    loader.transforms = static_cast<std::uint32_t>(reader.number_up_to(kMost32));
    loader.settings = reader.text();
  }
  return checked(reader, std::move(welcome));
}

Bytes encode(const BatchPlaces& places) {
  ByteWriter writer;
  writer.number(places.slot);
  writer.number(places.size);
  writer.number(places.arrays.size());
  for (const ArrayPlace& array : places.arrays) {
    writer.u8(static_cast<std::uint8_t>(array.type));
    writer.numbers(array.shape);
    writer.number(array.offset);
  }
  return writer.take();
}

template <>
std::optional<BatchPlaces> decode(std::span<const std::byte> body) {
  ByteReader reader(body);
  BatchPlaces places;
  places.slot = static_cast<std::uint32_t>(reader.number_up_to(kMost32));
  places.size = reader.number_up_to(kMostPayloadBytes);
  places.arrays.resize(static_cast<std::size_t>(reader.number_up_to(kMostArrays)));
  for (ArrayPlace& array : places.arrays) {
    array.type = static_cast<ElementType>(reader.u8_below(kElementTypeCount));
    array.shape = read_shape(reader);
    array.offset = reader.number();
  }
  if (!are_inside(places)) reader.fail();
  return checked(reader, std::move(places));
}

Bytes encode(const Failure& failure) {
  ByteWriter writer;
  writer.text(failure.message);
  return writer.take();
}

template <>
std::optional<Failure> decode(std::span<const std::byte> body) {
  ByteReader reader(body);
  return checked(reader, Failure{reader.text()});
}

}  // namespace kolo::delivery
