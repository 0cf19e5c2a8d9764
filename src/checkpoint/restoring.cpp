#include "checkpoint/restoring.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>

#include "checkpoint/folder.hpp"
#include "checkpoint/header.hpp"
#include "checkpoint/metadata.hpp"
#include "checkpoint/talk.hpp"
#include "core/scalar_type.hpp"
#include "kolo/error.h"
#include "kolo/init.h"
#include "kolo/objects.h"

namespace kolo::checkpoint {
namespace {

bool takes_bytes(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_conj() &&
         !tensor.is_neg();
}

}  // namespace

Search::Search(FileSystem& files, const std::string& folder, const std::string& name)
    : files_(files) {
  if (!files.has_folder(folder)) return;
  for (Saved& saved : list_checkpoints(files, folder, name))
    paths_.push_back(std::move(saved.path));
}

Candidate look_at(FileSystem& files, const std::string& path) {
  Candidate candidate{path, read_description(files, path)};
  // Detects here what HDF5 does not understand, before any rank relies on the file.
  parse_metadata(candidate.description.metadata, candidate.description.file_size, path);
  return candidate;
}

std::optional<Candidate> Search::next() {
  while (at_ < paths_.size()) {
    try {
      return look_at(files_, paths_[at_++]);
    } catch (const NewerVersionError&) {
      throw;
    } catch (const DataError& error) {
      rejected_.emplace_back(error.what());
    } catch (const FileError& error) {
      rejected_.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

std::optional<Candidate> share(const Status& status, const std::optional<Candidate>& candidate) {
  std::vector<std::string> pieces = {encode_status(status)};
  if (candidate) {
    const Description& description = candidate->description;
    pieces.push_back(candidate->path);
    pieces.push_back(Codec<std::uint64_t>::encode(description.file_size));
    pieces.push_back(raw(description.metadata));
    pieces.push_back(raw(description.checksums));
  }
  pieces = detail::split_pieces(
      broadcast_object(detail::join_pieces(pieces), 0, "checkpoint.candidate"));
  throw_if_error(decode_status(pieces.at(0)));
  if (pieces.size() == 1) return std::nullopt;
  return Candidate{pieces.at(1),
                   {Codec<std::uint64_t>::decode(pieces.at(2)),
                    list_of<unsigned char>(pieces.at(3)), list_of<std::uint64_t>(pieces.at(4))}};
}

Fetch::Fetch(Reader& reader, const Request& request, bool all_read)
    : reader_(reader), request_(request), all_read_(all_read), staged_(request.wanted().size()) {}

// Returns the rank that reads a tensor that all ranks want.
int Fetch::reader_of(std::size_t wanted) const {
  return all_read_ ? static_cast<int>(wanted % static_cast<std::size_t>(size())) : 0;
}

bool Fetch::is_mine(std::size_t wanted) const {
  const Request::Wanted& one = request_.wanted()[wanted];
  const bool reads_own = all_read_ && one.is_spread;
  return reads_own ? one.into.defined() : reader_of(wanted) == rank();
}

void Fetch::read() {
  for (std::size_t i = 0; i < staged_.size(); ++i) {
    if (!is_mine(i)) continue;
    const Request::Wanted& wanted = request_.wanted()[i];
    const TensorEntry& entry = reader_.table().tensors[wanted.tensor];
    const auto options = at::TensorOptions().dtype(scalar_type(entry.type));
    if (all_read_ && wanted.part) {
      staged_[i] = at::empty(wanted.part->extent, options);
      reader_.read(wanted.tensor, *wanted.part, staged_[i].data_ptr());
    } else {
      staged_[i] = at::empty(entry.shape, options);
      reader_.read(wanted.tensor, staged_[i].data_ptr());
    }
  }
}

void Fetch::deliver(bool early) {
  const at::NoGradGuard no_grad;
  deliver_whole(early);
  deliver_parts(early);
}

// Receives directly into the program's tensors if they are plain memory.
void Fetch::deliver_whole(bool early) {
  for (int root = 0; root < (all_read_ ? size() : 1); ++root) {
    std::vector<at::Tensor> sent;
    std::vector<std::pair<at::Tensor, at::Tensor>> to_copy;  // from, to
    for (std::size_t i = 0; i < staged_.size(); ++i) {
      const Request::Wanted& wanted = request_.wanted()[i];
      if (wanted.is_early != early || wanted.is_spread || reader_of(i) != root) continue;
      at::Tensor& staged = staged_[i];
      if (takes_bytes(wanted.into)) {
        if (staged.defined())
          std::memcpy(wanted.into.data_ptr(), staged.data_ptr(), staged.nbytes());
        sent.push_back(wanted.into);
      } else {
        if (!staged.defined()) {
          staged = at::empty(wanted.into.sizes(), wanted.into.options().device(at::kCPU),
                             at::MemoryFormat::Contiguous);
        }
        sent.push_back(staged);
        to_copy.emplace_back(staged, wanted.into);
      }
      staged.reset();
    }
    broadcast_bytes(sent, root);
    for (auto& [from, to] : to_copy) to.copy_(from);
  }
}

void Fetch::deliver_parts(bool early) {
  for (std::size_t i = 0; i < staged_.size(); ++i) {
    const Request::Wanted& wanted = request_.wanted()[i];
    if (wanted.is_early != early || !wanted.is_spread) continue;
    const TensorEntry& entry = reader_.table().tensors[wanted.tensor];
    at::Tensor& staged = staged_[i];
    if (!all_read_) {
      // Every rank gets the whole tensor, and cuts out its part.
      if (!staged.defined())
        staged = at::empty(entry.shape, at::TensorOptions().dtype(scalar_type(entry.type)));
      broadcast_bytes({staged}, 0);
    }
    if (!wanted.into.defined()) continue;
    at::Tensor part = staged;
    if (!all_read_) {
      for (std::size_t d = 0; d < wanted.part->start.size(); ++d) {
        part = part.narrow(static_cast<std::int64_t>(d), wanted.part->start[d],
                           wanted.part->extent[d]);
      }
    }
    at::Tensor into = wanted.into;
    into.copy_(part.reshape(into.sizes()));
    staged.reset();
  }
}

}  // namespace kolo::checkpoint
