// Any number of ranks as a power of two, for algorithms that need one: Thakur, Rabenseifner and
// Gropp, 2005.
#pragma once

namespace kolo {

// Let p be the largest power of two up to n and r = n - p. The ranks below 2r come in pairs. The
// odd one of a pair first gives its values to the even one before it, and gets the result at the
// end. The p ranks left have places, 0 to p - 1, in the order of ranks.
class Folding {
 public:
  Folding(int size, int rank) : rank_(rank) {
    while (places_ * 2 <= size) places_ *= 2;
    paired_ = 2 * (size - places_);
  }

  int places() const { return places_; }
  // Has no place: gives its values to rank - 1.
  bool gives() const { return rank_ < paired_ && rank_ % 2 == 1; }
  // Gets the values of rank + 1, and sends it the result.
  bool takes() const { return rank_ < paired_ && rank_ % 2 == 0; }
  // The place of a rank that does not give.
  int place() const { return rank_ < paired_ ? rank_ / 2 : rank_ - paired_ / 2; }
  int rank_at(int place) const { return place < paired_ / 2 ? place * 2 : place + paired_ / 2; }

 private:
  const int rank_;
  int places_ = 1;
  int paired_ = 0;
};

}  // namespace kolo
