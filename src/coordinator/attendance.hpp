#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

// Which ranks of a group still take part in its operations. A rank that has joined takes part again
// when all have joined; a rank that has left does not come back. Ranks are counted in the group.
class Attendance {
 public:
  // `ranks`: the group's, in the world.
  explicit Attendance(std::vector<int> ranks)
      : ranks_(std::move(ranks)), left_(ranks_.size(), false), joined_(ranks_.size(), false) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  int in_world(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  // The ranks as the world counts them, sorted.
  std::vector<int> in_world(std::vector<int> ranks) const;
  // "ranks 0, 3": as the world counts them.
  std::string in_words(std::vector<int> ranks) const;

  bool has_joined(int rank) const { return joined_[static_cast<std::size_t>(rank)]; }
  bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }
  const std::vector<bool>& joined() const { return joined_; }
  const std::vector<bool>& left() const { return left_; }
  // The first to leave comes first.
  const std::vector<int>& left_in_order() const { return left_in_order_; }
  bool any_joined() const { return joined_count_ > 0; }
  bool all_joined() const { return joined_count_ == size(); }
  bool all_take_part() const { return left_in_order_.empty() && joined_count_ == 0; }

  void join(int rank);
  void end_join();
  void leave(int rank);

 private:
  const std::vector<int> ranks_;
  std::vector<bool> left_;
  std::vector<bool> joined_;
  int joined_count_ = 0;
  std::vector<int> left_in_order_;
};

}  // namespace kolo
