#include "coordinator/wire.hpp"

#include "core/byte_codec.hpp"

namespace kolo::wire {
namespace {

using Writer = ByteWriter;
using Reader = ByteReader;

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
  w.number(m.entry);
  w.numbers(m.absent);
}
void read(Reader& r, Ready& m) {
  m.entry = r.number();
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
  m.evict = r.numbers<EntryId>();
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
  w.number(m.entry);
  w.numbers(m.absent);
}
void read(Reader& r, Execute& m) {
  m.entry = r.number();
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
