// The part of restore() that communicates with the other ranks.
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

// A file whose description is intact.
struct Candidate {
  std::string path;
  Description description;
};

// Rank 0's search through a folder's checkpoints with a name, newest first.
class Search {
 public:
  Search(FileSystem& files, const std::string& folder, const std::string& name);

  // Returns nothing if there are no more. Skips files whose description is damaged. Throws
  // NewerVersionError: such a file is whole, and going back to an older one would lose work.
  std::optional<Candidate> next();
  // Rejects the last result of next(), because its data are damaged.
  void reject(const std::string& why) { rejected_.push_back(why); }
  // The reasons why files were skipped.
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  FileSystem& files_;  // outlives the search
  std::vector<std::string> paths_;
  std::size_t at_ = 0;
  std::vector<std::string> rejected_;
};

// Throws like read_description().
Candidate look_at(FileSystem& files, const std::string& path);

// Collective. Returns rank 0's candidate on all ranks, or throws its status.
std::optional<Candidate> share(const Status& status, const std::optional<Candidate>& candidate);

// Reads what ranks want from a file. `all_read`: every rank may read it; otherwise rank 0 reads for
// all.
class Fetch {
 public:
  Fetch(Reader& reader, const Request& request, bool all_read);

  // Reads this rank's part into its own memory. Not collective. Throws like Reader.
  void read();
  // Fills the requested tensors: the early ones, or the others. Collective; called after read() on
  // all ranks.
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
