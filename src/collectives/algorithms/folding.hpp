// Maps any number of ranks to a power of two, for algorithms that need one: Thakur, Rabenseifner
// and Gropp, 2005.
#pragma once

namespace kolo {

// Let p be the largest power of two up to n and r = n - p. The ranks below 2r form pairs. The odd
// rank of a pair first gives its values to the even one before it, and gets the result at the end.
// The p remaining ranks have places 0 to p - 1, in rank order.
class Folding {
 public:
  Folding(int size, int rank) : rank_(rank) {
    while (places_ * 2 <= size) places_ *= 2;
    paired_ = 2 * (size - places_);
  }

  int places() const { return places_; }
  // Whether this rank has no place, and gives its values to rank - 1.
  bool gives() const { return rank_ < paired_ && rank_ % 2 == 1; }
  // Whether this rank gets the values of rank + 1, and sends it the result.
  bool takes() const { return rank_ < paired_ && rank_ % 2 == 0; }
  // Place of this rank, which must have one.
  int place() const { return rank_ < paired_ ? rank_ / 2 : rank_ - paired_ / 2; }
  int rank_at(int place) const { return place < paired_ / 2 ? place * 2 : place + paired_ / 2; }

 private:
  const int rank_;
  int places_ = 1;
  int paired_ = 0;
};

}  // namespace kolo
