// The part of restore() that talks to the other ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/component.hpp"
#include "checkpoint/file_system.hpp"
#include "checkpoint/reading.hpp"
#include "core/status.hpp"

namespace kolo::checkpoint {

// A file that is whole as far as its description goes.
struct Candidate {
  std::string path;
  Description description;
};

// Rank 0's search through a folder's checkpoints of a name, the newest first.
class Search {
 public:
  Search(FileSystem& files, const std::string& folder, const std::string& name);

  // Nothing if there are no more. Those with a wrong description are passed over. Throws
  // NewerVersionError: such a file is whole, and going back behind it would lose work.
  std::optional<Candidate> next();
  // The one that next() gave has wrong data.
  void reject(const std::string& why) { rejected_.push_back(why); }
  // Why each of those that were passed over is no good.
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  FileSystem& files_;  // outlives the search
  std::vector<std::string> paths_;
  std::size_t at_ = 0;
  std::vector<std::string> rejected_;
};

// Throws as read_description().
Candidate look_at(FileSystem& files, const std::string& path);

// Collective. Rank 0's status and candidate, everywhere; the status' exception is thrown.
std::optional<Candidate> share(const Status& status, const std::optional<Candidate>& candidate);

// Reads what ranks want of a file. `all_read`: every rank may read it; else rank 0 does, for all.
class Fetch {
 public:
  Fetch(Reader& reader, const Request& request, bool all_read);

  // Not collective: what this rank reads, into memory of its own. Throws what Reader throws.
  void read();
  // Collective, after read() on all ranks: fills the tensors that were asked for, those that are
  // early or the others.
  void deliver(bool early);

 private:
  bool is_mine(std::size_t wanted) const;
  int reader_of(std::size_t wanted) const;
  void deliver_whole(bool early);
  void deliver_parts(bool early);

  Reader& reader_;  // both outlive it
  const Request& request_;
  const bool all_read_;
  std::vector<at::Tensor> staged_;  // by wanted tensor
};

}  // namespace kolo::checkpoint
