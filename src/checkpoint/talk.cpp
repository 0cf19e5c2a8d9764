#include "checkpoint/talk.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "checkpoint/header.hpp"
#include "kolo/init.h"
#include "kolo/objects.h"
#include "kolo/operations.h"

namespace kolo::checkpoint {
namespace {

// Larger transfers are split into consecutive operations, which keeps staging memory small.
constexpr std::int64_t kMostAtOnce = std::int64_t{256} << 20;

at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), {static_cast<std::int64_t>(tensor.nbytes())}, at::kByte);
}

// A status that came from another rank already names that rank.
Status with_rank(const Status& status, std::size_t rank) {
  if (status.message().rfind("rank ", 0) == 0) return status;
  return {status.code(), "rank " + std::to_string(rank) + ": " + status.message()};
}

}  // namespace

Status status_of(const std::function<void()>& call) {
  try {
    call();
    return Status::ok();
  } catch (const InvalidArgumentError& error) {
    return Status::invalid_argument(error.what());
  } catch (const MismatchError& error) {
    return Status::mismatch(error.what());
  } catch (const DataError& error) {
    return Status::data(error.what());
  } catch (const FileError& error) {
    return Status::file(error.what());
  } catch (const PeerLostError& error) {
    return Status::peer_lost(error.what());
  } catch (const NotInitializedError& error) {
    return Status::not_initialized(error.what());
  } catch (const std::bad_alloc&) {
    return Status::internal("checkpoint: there is not enough memory");
  } catch (const c10::Error& error) {
    return Status::internal(std::string("checkpoint: LibTorch: ") + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Status::internal(error.what());
  }
}

std::string encode_status(const Status& status) {
  return static_cast<char>('a' + static_cast<int>(status.code())) + status.message();
}

Status decode_status(const std::string& text) {
  const int code = text.empty() ? -1 : text[0] - 'a';
  if (code < 0 || code > static_cast<int>(StatusCode::kInternal))
    throw DataError(
        "checkpoint: a message from another rank cannot be decoded; do all ranks run the same "
        "version of kolo?");
  return {static_cast<StatusCode>(code), text.substr(1)};
}

void throw_first(const std::vector<Status>& by_rank) {
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].is_ok()) continue;
    throw_if_error(by_rank.size() == 1 ? by_rank[rank] : with_rank(by_rank[rank], rank));
  }
}

void agree(const Status& mine, const std::string& name, const ProcessSet& set) {
  std::vector<Status> all;
  const auto texts = allgather_object(encode_status(mine), OperationOptions(name).process_set(set));
  all.reserve(texts.size());
  for (const std::string& text : texts) all.push_back(decode_status(text));
  throw_first(all);
}

void agree_on(const std::vector<std::string>& lines, const std::string& what) {
  const std::string all = detail::join_pieces(lines);
  const std::vector<std::uint64_t> sums =
      allgather_object(checksum(all.data(), all.size()), "checkpoint.lines");
  if (std::all_of(sums.begin(), sums.end(), [&](std::uint64_t sum) { return sum == sums[0]; }))
    return;
  const auto by_rank = allgather_object(lines, "checkpoint.listing");
  const auto line = [&](std::size_t rank, std::size_t i) {
    return i < by_rank[rank].size() ? by_rank[rank][i] : std::string("nothing more");
  };
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    for (std::size_t i = 0; i < std::max(by_rank[rank].size(), by_rank[0].size()); ++i) {
      if (line(rank, i) == line(0, i)) continue;
      throw MismatchError("checkpoint: ranks " + what + ": rank 0 has " + line(0, i) + ", rank " +
                          std::to_string(rank) + " " + line(rank, i) +
                          "; add the same on all ranks, in the same order");
    }
  }
  throw InternalError("checkpoint: ranks " + what + ", and list the same");
}

void broadcast_bytes(const std::vector<at::Tensor>& tensors, int root) {
  std::vector<at::Tensor> group;
  std::int64_t bytes = 0;
  const auto send = [&] {
    if (!group.empty()) grouped_broadcast_(group, root);
    group.clear();
    bytes = 0;
  };
  for (const at::Tensor& tensor : tensors) {
    if (tensor.nbytes() == 0) continue;
    group.push_back(bytes_of(tensor));
    bytes += static_cast<std::int64_t>(tensor.nbytes());
    if (bytes >= kMostAtOnce) send();
  }
  send();
}

std::vector<at::Tensor> exchange(const std::vector<at::Tensor>& for_ranks) {
  std::vector<std::int64_t> splits;
  splits.reserve(for_ranks.size());
  for (const at::Tensor& tensor : for_ranks) splits.push_back(tensor.numel());
  const AlltoallResult result = alltoall(at::cat(for_ranks), splits);
  return result.output.split_with_sizes(result.received_splits);
}

}  // namespace kolo::checkpoint
