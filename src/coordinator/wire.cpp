#include "coordinator/wire.hpp"

#include <bit>
#include <limits>

namespace kolo::wire {
namespace {

class Writer {
 public:
  void u8(std::uint8_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) u8(static_cast<std::uint8_t>(value | 0x80));
    u8(static_cast<std::uint8_t>(value));
  }
  void real(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) u8(static_cast<std::uint8_t>(bits >> shift));
  }
  void text(const std::string& value) {
    number(value.size());
    for (const char c : value) u8(static_cast<std::uint8_t>(c));
  }
  template <typename Number>
  void numbers(const std::vector<Number>& values) {
    number(values.size());
    for (const Number value : values) number(static_cast<std::uint64_t>(value));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads what Writer wrote. After the first error everything reads as zero and ok() is false.
class Reader {
 public:
  explicit Reader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return !ok_ || at_ == bytes_.size(); }
  void fail() { ok_ = false; }

  std::uint8_t u8() {
    if (!ok_ || at_ == bytes_.size()) {
      ok_ = false;
      return 0;
    }
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::uint8_t u8_below(int limit) {
    const std::uint8_t value = u8();
    if (value < limit) return value;
    ok_ = false;
    return 0;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const std::uint8_t byte = u8();
      if (shift == 63 && byte > 1) break;  // more than 64 bits
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return ok_ ? value : 0;
    }
    ok_ = false;
    return 0;
  }
  std::uint64_t number_up_to(std::uint64_t limit) {
    const std::uint64_t value = number();
    if (value <= limit) return value;
    ok_ = false;
    return 0;
  }
  double real() {
    std::uint64_t bits = 0;
    for (int shift = 0; shift < 64; shift += 8) bits |= static_cast<std::uint64_t>(u8()) << shift;
    return std::bit_cast<double>(bits);
  }
  // A count of things that take a byte each at least, so that a lying count cannot make us
  // allocate.
  std::size_t count() { return static_cast<std::size_t>(number_up_to(bytes_.size() - at_)); }
  std::string text() {
    std::string value(count(), '\0');
    for (char& c : value) c = static_cast<char>(u8());
    return value;
  }
  template <typename Number>
  std::vector<Number> numbers() {
    constexpr std::uint64_t kLargest = std::numeric_limits<Number>::max();
    std::vector<Number> values(count());
    for (Number& value : values) value = static_cast<Number>(number_up_to(kLargest));
    return values;
  }

 private:
  const std::vector<std::byte>& bytes_;  // outlives the reader, which lives within decode()
  std::size_t at_ = 0;
  bool ok_ = true;
};

constexpr std::uint64_t kLargestInt32 = 0x7fffffffULL;

void write(Writer& w, const Descriptor& d) {
  w.u8(static_cast<std::uint8_t>(d.kind));
  w.u8(static_cast<std::uint8_t>(d.op));
  w.u8(static_cast<std::uint8_t>(d.device));
  w.number(static_cast<std::uint64_t>(d.root));
  w.number(static_cast<std::uint64_t>(d.destination));
  w.real(d.prescale);
  w.real(d.postscale);
  w.text(d.content);
  w.text(d.refusal);
  w.number(d.tensors.size());
  for (const TensorSpec& tensor : d.tensors) {
    w.u8(static_cast<std::uint8_t>(tensor.dtype));
    w.numbers(tensor.shape);
    w.text(tensor.name);
    w.text(tensor.element);
    w.numbers(tensor.order);
  }
}

Descriptor read_descriptor(Reader& r) {
  Descriptor d;
  d.kind = static_cast<OpKind>(r.u8_below(kOpKindCount));
  d.op = static_cast<ReduceOp>(r.u8_below(kReduceOpCount));
  d.device = static_cast<DeviceKind>(r.u8_below(kDeviceKindCount));
  d.root = static_cast<std::int32_t>(r.number_up_to(kLargestInt32));
  d.destination = static_cast<std::int32_t>(r.number_up_to(kLargestInt32));
  d.prescale = r.real();
  d.postscale = r.real();
  d.content = r.text();
  d.refusal = r.text();
  d.tensors.resize(r.count());
  for (TensorSpec& tensor : d.tensors) {
    tensor.dtype = static_cast<DType>(r.u8_below(kDTypeCount));
    tensor.shape = r.numbers<std::int64_t>();
    tensor.name = r.text();
    tensor.element = r.text();
    tensor.order = r.numbers<std::int64_t>();
  }
  return d;
}

void write(Writer& w, const Announce& m) {
  w.text(m.name);
  write(w, m.descriptor);
  w.u8(static_cast<std::uint8_t>((m.absent ? 1 : 0) | (m.transient ? 2 : 0) | (m.again ? 4 : 0)));
}
void read(Reader& r, Announce& m) {
  m.name = r.text();
  m.descriptor = read_descriptor(r);
  const std::uint8_t flags = r.u8_below(8);
  m.absent = (flags & 1) != 0;
  m.transient = (flags & 2) != 0;
  m.again = (flags & 4) != 0;
}

void write(Writer& w, const Ready& m) {
  w.number(m.unit);
  w.numbers(m.absent);
}
void read(Reader& r, Ready& m) {
  m.unit = r.number();
  m.absent = r.numbers<std::uint32_t>();
}

void write(Writer& w, const Flush& m) {
  w.number(m.bucket);
}
void read(Reader& r, Flush& m) {
  m.bucket = r.number();
}

void write(Writer& w, const Boundary& m) {
  w.number(m.together.size());
  for (const Submitted& submitted : m.together) {
    w.number(submitted.tensor);
    w.number(submitted.execution);
  }
  w.numbers(m.evict);
}
void read(Reader& r, Boundary& m) {
  m.together.resize(r.count());
  for (Submitted& submitted : m.together) {
    submitted.tensor = r.number();
    submitted.execution = r.number();
  }
  m.evict = r.numbers<UnitId>();
}

void write(Writer& /*w*/, const Leave& /*m*/) {}
void read(Reader& /*r*/, Leave& /*m*/) {}

void write(Writer& w, const Assign& m) {
  w.number(m.id);
  w.text(m.name);
  write(w, m.descriptor);
  w.u8(m.transient ? 1 : 0);
}
void read(Reader& r, Assign& m) {
  m.id = r.number();
  m.name = r.text();
  m.descriptor = read_descriptor(r);
  m.transient = r.u8_below(2) != 0;
}

void write(Writer& w, const Bucket& m) {
  w.number(m.id);
  w.number(m.members.size());
  for (const BucketMember& member : m.members) {
    w.number(member.tensor);
    w.number(member.base);
  }
}
void read(Reader& r, Bucket& m) {
  m.id = r.number();
  m.members.resize(r.count());
  for (BucketMember& member : m.members) {
    member.tensor = r.number();
    member.base = r.number();
  }
}

void write(Writer& w, const Execute& m) {
  w.number(m.unit);
  w.numbers(m.absent);
}
void read(Reader& r, Execute& m) {
  m.unit = r.number();
  m.absent = r.numbers<std::uint32_t>();
}

void write(Writer& w, const Fail& m) {
  w.u8(static_cast<std::uint8_t>(m.name_space));
  w.text(m.name);
  w.u8(static_cast<std::uint8_t>(m.code));
  w.text(m.message);
  w.numbers(m.without);
}
void read(Reader& r, Fail& m) {
  m.name_space = r.u8_below(kNameSpaces);
  m.name = r.text();
  m.code = static_cast<StatusCode>(r.u8_below(static_cast<int>(StatusCode::kInternal) + 1));
  if (m.code == StatusCode::kOk) r.fail();
  m.message = r.text();
  m.without = r.numbers<std::uint32_t>();
}

void write(Writer& w, const Dissolve& m) {
  w.number(m.bucket);
}
void read(Reader& r, Dissolve& m) {
  m.bucket = r.number();
}

void write(Writer& w, const Evict& m) {
  w.number(m.tensor);
}
void read(Reader& r, Evict& m) {
  m.tensor = r.number();
}

void write(Writer& /*w*/, const Join& /*m*/) {}
void read(Reader& /*r*/, Join& /*m*/) {}

void write(Writer& w, const Joined& m) {
  w.number(static_cast<std::uint64_t>(m.last_rank));
  w.text(m.error);
}
void read(Reader& r, Joined& m) {
  m.last_rank = static_cast<int>(r.number_up_to(kLargestInt32));
  m.error = r.text();
}

void write(Writer& w, const Measures& m) {
  w.numbers(m.numbers);
}
void read(Reader& r, Measures& m) {
  m.numbers = r.numbers<std::uint64_t>();
}

void write(Writer& w, const Stalled& m) {
  w.text(m.text);
}
void read(Reader& r, Stalled& m) {
  m.text = r.text();
}

void write(Writer& /*w*/, const Bye& /*m*/) {}
void read(Reader& /*r*/, Bye& /*m*/) {}

void write(Writer& w, const Abort& m) {
  w.text(m.message);
}
void read(Reader& r, Abort& m) {
  m.message = r.text();
}

// The kind of a record is its place in the variant, counted from 1.
template <typename Record>
std::vector<std::byte> encode_records(const std::vector<Record>& records) {
  Writer writer;
  for (const Record& record : records) {
    writer.u8(static_cast<std::uint8_t>(record.index() + 1));
    std::visit([&](const auto& body) { write(writer, body); }, record);
  }
  return writer.take();
}

template <typename Record, std::size_t kAt = 0>
Record read_record(Reader& reader, std::uint8_t kind) {
  if constexpr (kAt < std::variant_size_v<Record>) {
    if (kind != kAt + 1) return read_record<Record, kAt + 1>(reader, kind);
    std::variant_alternative_t<kAt, Record> body;
    read(reader, body);
    return body;
  } else {
    reader.fail();
    return {};
  }
}

template <typename Record>
Status decode_records(const std::vector<std::byte>& bytes, std::vector<Record>& records) {
  Reader reader(bytes);
  records.clear();
  while (!reader.at_end()) {
    const std::uint8_t kind = reader.u8();
    records.push_back(read_record<Record>(reader, kind));
  }
  if (reader.ok()) return Status::ok();
  records.clear();
  return Status::internal("a control message of " + std::to_string(bytes.size()) +
                          " bytes is damaged; do all ranks run the same version of kolo?");
}

}  // namespace

std::vector<std::byte> encode(const Report& report) {
  return encode_records(report);
}
std::vector<std::byte> encode(const Decisions& decisions) {
  return encode_records(decisions);
}

Status decode(const std::vector<std::byte>& bytes, Report& report) {
  return decode_records(bytes, report);
}
Status decode(const std::vector<std::byte>& bytes, Decisions& decisions) {
  return decode_records(bytes, decisions);
}

}  // namespace kolo::wire
