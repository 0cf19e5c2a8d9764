#include "engine/bucket_table.hpp"

#include "engine/bucket_layout.hpp"

#include <optional>
#include <utility>

namespace kolo {

BucketTable::~BucketTable() {
  for (const auto& [bucket, names] : names_) clear_places(names);
}

void BucketTable::begin(const Participant::BucketBegins& bucket, Backend& backend) {
  std::vector<std::size_t> sizes;
  sizes.reserve(bucket.members.size());
  for (const Participant::BucketMember& member : bucket.members)
    sizes.push_back(member.descriptor.bytes());
  BucketLayout layout = layout_bucket(sizes);
  BucketBuffer& buffer = buffers_[bucket.bucket];
  buffer.data = backend.make_buffer(layout.bytes);
  buffer.bytes = layout.bytes;
  buffer.offsets = std::move(layout.offsets);
  buffer.sizes = std::move(sizes);
  // On a device all members are packed at once, when the bucket is full.
  if (bucket.members.front().descriptor.device != DeviceKind::kCpu) return;
  std::vector<std::string>& names = names_[bucket.bucket];
  for (std::size_t i = 0; i < buffer.sizes.size(); ++i) {
    names.push_back(bucket.members[i].name);
    mailbox_.set_place(
        process_set_, names.back(),
        BufferPlace{buffer.data, buffer.offsets[i], buffer.sizes[i], {bucket.bucket, i}});
  }
}

void BucketTable::end(EntryId bucket) {
  if (const auto names = names_.find(bucket); names != names_.end()) {
    clear_places(names->second);
    names_.erase(names);
  }
  buffers_.erase(bucket);
}

const BucketBuffer* BucketTable::find(EntryId entry) const {
  const auto found = buffers_.find(entry);
  return found == buffers_.end() ? nullptr : &found->second;
}

void BucketTable::clear_places(const std::vector<std::string>& names) {
  for (const std::string& name : names) mailbox_.set_place(process_set_, name, std::nullopt);
}

}  // namespace kolo
