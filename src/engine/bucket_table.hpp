// The buffers of a group's buckets, and the places of their members in them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/backend.hpp"
#include "coordinator/participant.hpp"
#include "engine/launch.hpp"
#include "engine/mailbox.hpp"

namespace kolo {

class BucketTable {
 public:
  // The mailbox, which packs members of buckets on the CPU when they are submitted, outlives this.
  BucketTable(int process_set, Mailbox& mailbox) : process_set_(process_set), mailbox_(mailbox) {}
  // Ends all buckets.
  ~BucketTable();
  BucketTable(const BucketTable&) = delete;
  BucketTable& operator=(const BucketTable&) = delete;

  void begin(const Participant::BucketBegins& bucket, Backend& backend);
  void end(EntryId bucket);
  // Null if the entry is not a bucket.
  const BucketBuffer* find(EntryId entry) const;

 private:
  void clear_places(const std::vector<std::string>& names);

  const int process_set_;
  Mailbox& mailbox_;
  std::unordered_map<EntryId, BucketBuffer> buffers_;
  std::unordered_map<EntryId, std::vector<std::string>> names_;  // of members with a place
};

}  // namespace kolo
