#include "checkpoint/save_job.hpp"

#include "checkpoint/talk.hpp"
#include "kolo/objects.h"

namespace kolo::checkpoint {
namespace {

// A writer's report to rank 0.
struct Written {
  Status status;
  std::vector<PieceSum> sums;
};

std::string encode(const Written& written) {
  return detail::join_pieces({encode_status(written.status), raw(written.sums)});
}

Written decode(const std::string& bytes) {
  const std::vector<std::string> pieces = detail::split_pieces(bytes);
  if (pieces.size() != 2)
    throw DataError(
        "checkpoint: a message from another rank cannot be decoded; do all ranks run the same "
        "version of kolo?");
  return {decode_status(pieces[0]), list_of<PieceSum>(pieces[1])};
}

// Writes this rank's share, and waits until all ranks have written theirs.
void write_together(SaveJob& job, FileSystem& files, Shelf& shelf, const Channel& channel) {
  Written mine;
  mine.status = status_of([&] { mine.sums = write_pieces(files, job.path, job.pieces); });
  std::vector<Status> by_rank;
  std::vector<PieceSum> sums;
  const OperationOptions options =
      OperationOptions("checkpoint.written." + std::to_string(channel.checkpoint))
          .process_set(channel.set);
  for (const std::string& bytes : allgather_object(encode(mine), options)) {
    Written written = decode(bytes);
    by_rank.push_back(written.status);
    sums.insert(sums.end(), written.sums.begin(), written.sums.end());
  }
  throw_first(by_rank);
  if (job.rank != 0) return;
  complete_file(files, job.path, std::move(job.metadata), sums, job.piece_count);
  shelf.saved(job.step, job.metric);
}

}  // namespace

Status run(SaveJob& job, FileSystem& files, Shelf& shelf, const Channel& channel) {
  Status status = status_of([&] {
    if (job.all_write) {
      write_together(job, files, shelf, channel);
    } else if (job.rank == 0) {
      save_alone(files, shelf, std::move(job.metadata), job.step, job.metric, job.pieces);
    }
  });
  if (job.rank == 0 && !status.is_ok()) abandon_file(files, job.path);
  job.pieces.clear();
  job.held.clear();
  return status;
}

}  // namespace kolo::checkpoint
