#include "coordinator/negotiated_tensor.hpp"

#include <algorithm>
#include <utility>

#include "core/operations.hpp"

namespace kolo {

void NegotiatedTensor::arrive(int rank, bool without_values, Clock::time_point now) {
  arrived[rank] = true;
  if (arrivals++ == 0) since = now;
  if (without_values) ++absent;
}

void NegotiatedTensor::clear_arrivals() {
  arrived.assign(arrived.size(), false);
  arrivals = 0;
  absent = 0;
  announced.clear();
}

const Descriptor& NegotiatedTensor::meant() const {
  return announced.empty() ? agreed : announced.begin()->second;
}

// A rank that came with the id means the agreed descriptor.
const Descriptor& NegotiatedTensor::meant_by(int rank) const {
  const auto found = announced.find(rank);
  return found == announced.end() ? agreed : found->second;
}

bool NegotiatedTensor::needs(int rank, const Attendance& attendance) const {
  const Descriptor& descriptor = meant();
  const int in_world = attendance.in_world(rank);
  return !descriptor.is_between_two() || descriptor.root == in_world ||
         descriptor.destination == in_world;
}

std::vector<int> NegotiatedTensor::joined_without(const Attendance& attendance) const {
  std::vector<int> ranks;
  if (!attendance.any_joined()) return ranks;
  for (int rank = 0; rank < attendance.size(); ++rank) {
    if (attendance.has_joined(rank) && !arrived[rank]) ranks.push_back(rank);
  }
  return ranks;
}

bool NegotiatedTensor::is_complete(const Attendance& attendance) const {
  if (meant().is_between_two()) {
    for (int rank = 0; rank < attendance.size(); ++rank) {
      if (needs(rank, attendance) && !arrived[rank] && !attendance.has_joined(rank)) return false;
    }
    return true;
  }
  return arrivals + static_cast<int>(joined_without(attendance).size()) == attendance.size();
}

bool NegotiatedTensor::pairs_differ(const Attendance& attendance) const {
  return arrivals > 1 && meant().is_between_two() && !disagreement(attendance).empty();
}

std::vector<int> NegotiatedTensor::missing_ranks(const Attendance& attendance) const {
  std::vector<int> missing;
  for (int rank = 0; rank < attendance.size(); ++rank) {
    if (!arrived[rank] && !attendance.has_joined(rank) && needs(rank, attendance))
      missing.push_back(rank);
  }
  return missing;
}

bool NegotiatedTensor::is_hopeless(const Attendance& attendance) const {
  for (int rank = 0; rank < attendance.size(); ++rank) {
    if (attendance.has_left(rank) && !arrived[rank] && needs(rank, attendance)) return true;
  }
  return false;
}

std::string NegotiatedTensor::refusals(const Attendance& attendance) const {
  std::string text;
  for (const auto& [rank, descriptor] : announced) {
    if (descriptor.refusal.empty()) continue;
    text += (text.empty() ? "" : "; ") + attendance.in_words({rank}) +
            " could not take part: " + descriptor.refusal;
  }
  return text;
}

std::string NegotiatedTensor::disagreement(const Attendance& attendance) const {
  if (announced.empty()) return {};
  std::vector<const Descriptor*> meanings;
  std::vector<int> ranks;
  for (int rank = 0; rank < attendance.size(); ++rank) {
    if (!arrived[rank]) continue;
    meanings.push_back(&meant_by(rank));
    ranks.push_back(attendance.in_world(rank));
  }
  return describe_difference(meanings, ranks);
}

std::string NegotiatedTensor::missing_for_good(const Attendance& attendance) const {
  const Descriptor& descriptor = meant();
  const std::vector<int> joined = joined_without(attendance);
  if (traits_of(descriptor.kind).needs_root &&
      std::any_of(joined.begin(), joined.end(),
                  [&](int rank) { return attendance.in_world(rank) == descriptor.root; })) {
    return std::string(name_of(descriptor.kind)) + " of '" + name + "': its root, rank " +
           std::to_string(descriptor.root) +
           ", has joined and no longer takes part; choose a root that has not joined";
  }
  if (descriptor.is_between_two() && arrivals < 2) {
    return "send '" + name + "' from rank " + std::to_string(descriptor.root) + " to rank " +
           std::to_string(descriptor.destination) +
           ": one of them has joined and no longer takes part";
  }
  return {};
}

}  // namespace kolo
