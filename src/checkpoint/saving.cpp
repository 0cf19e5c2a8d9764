#include "checkpoint/saving.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "checkpoint/header.hpp"
#include "checkpoint/talk.hpp"
#include "collectives/reduce/combine.hpp"
#include "core/scalar_type.hpp"
#include "core/types.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/objects.h"

namespace kolo::checkpoint {
namespace {

using Item = Capture::Item;
using Numbers = std::vector<std::int64_t>;

// Whether the ranks may have different shapes, of which rank 0's is saved.
bool has_any_shape(const Item& item) {
  return item.spread.kind == Kind::kText || item.spread.kind == Kind::kArchive;
}

std::string described(const Item& item) {
  std::string text = item.name + " " + c10::toString(item.tensor.scalar_type());
  if (item.spread.part) return text + " " + to_string(item.spread.shape) + ", a part of it";
  if (item.spread.kind == Kind::kPerRank) text += " for each rank";
  return has_any_shape(item) ? text : text + " " + to_string(item.tensor.sizes().vec());
}

// Returns what must be the same on all ranks, one line per item.
std::vector<std::string> listing(const Capture& capture) {
  std::vector<std::string> lines;
  for (const Item& item : capture.items()) lines.push_back(described(item));
  for (const auto& [name, value] : capture.values()) lines.push_back(name);
  return lines;
}

// Returns where this rank's parts lie, in the order of the items.
std::vector<Numbers> parts_of(const Capture& capture) {
  std::vector<Numbers> parts;
  for (const Item& item : capture.items()) {
    if (item.spread.part) parts.push_back(item.spread.part->start);
    if (item.spread.part || has_any_shape(item)) parts.push_back(item.tensor.sizes().vec());
  }
  return parts;
}

std::string encode(const Hello& hello, const std::vector<Numbers>& parts) {
  return detail::join_pieces(
      {encode_status(hello.before), encode_status(hello.now), Codec<bool>::encode(hello.is_busy),
       Codec<std::int64_t>::encode(hello.step), Codec<std::vector<Numbers>>::encode(parts)});
}

void decode(const std::string& bytes, Greetings& greetings) {
  const std::vector<std::string> pieces = detail::split_pieces(bytes);
  if (pieces.size() != 5)
    throw DataError(
        "checkpoint: a message from another rank cannot be decoded; do all ranks run the same "
        "version of kolo?");
  greetings.by_rank.push_back({decode_status(pieces[0]), decode_status(pieces[1]),
                               Codec<bool>::decode(pieces[2]),
                               Codec<std::int64_t>::decode(pieces[3])});
  greetings.parts.push_back(Codec<std::vector<Numbers>>::decode(pieces[4]));
}

// Returns the rows of a tensor of which each rank has one.
std::vector<Box> rows_of(const std::vector<std::int64_t>& shape) {
  std::vector<Box> rows;
  for (std::int64_t rank = 0; rank < shape[0]; ++rank) {
    rows.push_back(whole(shape));
    rows.back().start[0] = rank;
    rows.back().extent[0] = 1;
  }
  return rows;
}

// Adds an item's entry and boxes. `next` returns the next numbers of all ranks' parts, by rank.
template <typename Next>
void add_entry(const Item& item, Next&& next, Opening& opening) {
  TensorEntry entry{item.name, *element_type(item.tensor.scalar_type()), item.tensor.sizes().vec(),
                    item.spread.kind};
  std::vector<Box> parts;
  if (item.spread.part) {
    entry.shape = item.spread.shape;
    const std::vector<Numbers> starts = next();
    const std::vector<Numbers> extents = next();
    for (std::size_t rank = 0; rank < starts.size(); ++rank)
      parts.push_back({starts[rank], extents[rank]});
  } else if (item.spread.kind == Kind::kPerRank) {
    entry.shape.insert(entry.shape.begin(), size());
    parts = rows_of(entry.shape);
  } else if (has_any_shape(item)) {
    entry.shape = next()[0];
    parts.assign(static_cast<std::size_t>(size()), Box{{0}, {0}});
    parts[0] = whole(entry.shape);
  }
  opening.table.tensors.push_back(std::move(entry));
  opening.boxes.push_back(std::move(parts));
  opening.rank_zeros.push_back(item.spread.is_rank_zeros);
}

// --- bytes ---

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

const unsigned char* bytes_of(const at::Tensor& tensor) {
  return static_cast<const unsigned char*>(tensor.const_data_ptr());
}

// Packs this rank's bytes for each writer.
std::vector<at::Tensor> pack(const WritePlan& plan, const std::vector<at::Tensor>& hosts) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(size()));
  plan.for_each_transfer(rank(), [&](const auto& transfer) {
    bytes[static_cast<std::size_t>(transfer.to)] += static_cast<std::int64_t>(transfer.bytes);
  });
  std::vector<at::Tensor> packed;
  std::vector<unsigned char*> next;
  for (const std::int64_t count : bytes) {
    packed.push_back(at::empty({count}, at::kByte));
    next.push_back(static_cast<unsigned char*>(packed.back().data_ptr()));
  }
  plan.for_each_transfer(rank(), [&](const auto& transfer) {
    unsigned char*& to = next[static_cast<std::size_t>(transfer.to)];
    std::memcpy(to, bytes_of(hosts[transfer.piece.tensor]) + transfer.in_box, transfer.bytes);
    to += transfer.bytes;
  });
  return packed;
}

// Unpacks received bytes. `place`: returns where a piece's data are.
template <typename Place>
void unpack(const WritePlan& plan, const std::vector<at::Tensor>& received, Place&& place) {
  for (std::size_t from = 0; from < received.size(); ++from) {
    const unsigned char* at = bytes_of(received[from]);
    plan.for_each_transfer(static_cast<int>(from), [&](const auto& transfer) {
      if (transfer.to != rank()) return;
      std::memcpy(place(transfer.piece) + transfer.in_piece, at, transfer.bytes);
      at += transfer.bytes;
    });
  }
}

// Calls `work` for each number below `count`, on as many threads as this rank computes with.
// (at::parallel_for() uses one thread unless its caller is compiled with OpenMP.)
void in_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  constexpr std::size_t kWorthThread = 16;  // pieces
  const auto most = static_cast<std::size_t>(std::max(at::get_num_threads(), 1));
  const std::size_t shares = std::clamp<std::size_t>(count / kWorthThread, 1, most);
  const auto do_share = [&](std::size_t share) {
    for (std::size_t i = count * share / shares; i < count * (share + 1) / shares; ++i) work(i);
  };
  std::vector<std::jthread> others;  // joined in any case
  for (std::size_t share = 1; share < shares; ++share) others.emplace_back(do_share, share);
  do_share(0);
}

// By piece number: the memory of pieces that this rank writes from a copy; otherwise null.
using Places = std::vector<unsigned char*>;

// Fills job.pieces. Copies this rank's own data if `copies` is set; otherwise refers to them.
Places take_own(const WritePlan& plan, const Boxes& boxes, const std::vector<at::Tensor>& hosts,
                bool copies, Staging& staging, SaveJob& job) {
  const std::vector<Piece> mine = plan.written_by(rank());
  const auto is_copied = [&](const Piece& piece) { return copies || !boxes[piece.tensor].empty(); };
  std::uint64_t room = 0;
  for (const Piece& piece : mine) room += is_copied(piece) ? piece.bytes : 0;
  unsigned char* next = staging.reserve(room);

  Places places(plan.pieces().count(), nullptr);
  std::vector<Piece> plain;  // to be copied here
  job.pieces.reserve(mine.size());
  for (const Piece& piece : mine) {
    if (!is_copied(piece)) {
      job.pieces.push_back({piece, bytes_of(hosts[piece.tensor]) + piece.begin});
      continue;
    }
    places[piece.number] = next;
    job.pieces.push_back({piece, next});
    next += piece.bytes;
    if (boxes[piece.tensor].empty()) plain.push_back(piece);
  }
  in_threads(plain.size(), [&](std::size_t i) {
    const Piece& piece = plain[i];
    // Bypasses the cache: nobody reads the copy soon, and training needs what is in the cache.
    copy(places[piece.number], bytes_of(hosts[piece.tensor]) + piece.begin, piece.bytes, true);
  });
  return places;
}

// Rank 0's message to the others, which they need before they write.
struct Start {
  Status status;
  std::vector<std::uint64_t> offsets;  // of the tensors, then of the checksums
};

Start start(Table& table, SaveJob& job, const SaveSettings& settings, FileSystem& files,
            Shelf& shelf) {
  Start start;
  start.status = status_of([&] {
    job.metadata = make_metadata(table, count_pieces(table), settings.expected_metadata);
    start.offsets.reserve(table.tensors.size());
    for (const TensorEntry& entry : table.tensors) start.offsets.push_back(entry.offset);
    start.offsets.push_back(job.metadata.checksums_offset);
    shelf.look();
    if (!settings.all_write) return;
    shelf.prepare();
    begin_file(files, job.path, job.metadata.file_size);
  });
  return start;
}

// Collective. Returns where the checksums lie.
std::uint64_t share(const Start& start, Table& table) {
  const std::string bytes =
      broadcast_object(detail::join_pieces({encode_status(start.status), raw(start.offsets)}), 0,
                       "checkpoint.start");
  const std::vector<std::string> pieces = detail::split_pieces(bytes);
  throw_if_error(decode_status(pieces.at(0)));
  const auto offsets = list_of<std::uint64_t>(pieces.at(1));
  for (std::size_t i = 0; i < table.tensors.size(); ++i) table.tensors[i].offset = offsets.at(i);
  return offsets.at(table.tensors.size());
}

}  // namespace

Greetings greet(const Hello& mine, const Capture& capture) {
  Greetings all;
  for (const std::string& bytes :
       allgather_object(encode(mine, parts_of(capture)), "checkpoint.open")) {
    decode(bytes, all);
    all.someone_is_busy = all.someone_is_busy || all.by_rank.back().is_busy;
  }
  return all;
}

void Greetings::throw_before() const {
  std::vector<Status> statuses;
  statuses.reserve(by_rank.size());
  for (const Hello& hello : by_rank) statuses.push_back(hello.before);
  throw_first(statuses);
}

Opening open_save(const Capture& capture, const Greetings& all) {
  std::vector<Status> statuses;
  statuses.reserve(all.by_rank.size());
  for (const Hello& hello : all.by_rank) statuses.push_back(hello.now);
  throw_first(statuses);
  for (std::size_t rank = 1; rank < all.by_rank.size(); ++rank) {
    const std::int64_t step = all.by_rank[rank].step;
    if (step == all.by_rank[0].step) continue;
    throw MismatchError("checkpoint: rank 0 saves step " + std::to_string(all.by_rank[0].step) +
                        ", rank " + std::to_string(rank) + " step " + std::to_string(step) +
                        "; give the same on all ranks");
  }
  agree_on(listing(capture), "have different things to save");

  Opening opening;
  std::size_t at = 0;
  const auto next = [&] {
    std::vector<Numbers> by_rank;
    by_rank.reserve(all.parts.size());
    for (const std::vector<Numbers>& parts : all.parts) by_rank.push_back(parts[at]);
    ++at;
    return by_rank;
  };
  for (const Item& item : capture.items()) add_entry(item, next, opening);
  check_boxes(opening.table, opening.boxes);
  return opening;
}

SaveJob prepare_save(Opening opening, const Capture& capture, const About& about,
                     const SaveSettings& settings, FileSystem& files, Shelf& shelf,
                     Staging& staging) {
  Table& table = opening.table;
  table.values = capture.values();
  put(about, table);
  SaveJob job;
  job.path = shelf.path_of(about.step);
  job.step = about.step;
  job.metric = about.metric;
  job.all_write = settings.all_write;
  job.rank = rank();
  const std::uint64_t checksums =
      share(rank() == 0 ? start(table, job, settings, files, shelf) : Start(), table);

  const WritePlan plan(table, opening.boxes, opening.rank_zeros, settings.all_write, size(),
                       checksums);
  job.piece_count = plan.pieces().count();
  std::vector<at::Tensor> hosts(table.tensors.size());
  std::vector<at::Tensor> packed;
  Places places;
  const Status status = status_of([&] {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const bool is_needed = !opening.boxes[i].empty() || plan.writes(rank(), i);
      if (is_needed) hosts[i] = on_host(capture.items()[i].tensor);
    }
    places = take_own(plan, opening.boxes, hosts, settings.copies, staging, job);
    packed = pack(plan, hosts);
  });
  agree(status, "checkpoint.copy");
  unpack(plan, exchange(packed), [&](const Piece& piece) { return places[piece.number]; });
  if (!settings.copies) job.held = std::move(hosts);
  return job;
}

}  // namespace kolo::checkpoint
