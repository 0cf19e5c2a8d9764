// Adasum by its definition, to compare with.
#pragma once

#include <kolo/kolo.h>

#include <vector>

namespace kolo::testing_support {

// Of two tensors of dtype float64.
inline at::Tensor adasum_of(const at::Tensor& a, const at::Tensor& b) {
  const double dot = (a * b).sum().item<double>();
  const double of_a = a.pow(2).sum().item<double>();
  const double of_b = b.pow(2).sum().item<double>();
  return a * (of_a > 0 ? 1 - dot / (2 * of_a) : 1) + b * (of_b > 0 ? 1 - dot / (2 * of_b) : 1);
}

// Of the rows, rank by rank, of up to 4 ranks: pairs first, then the pairs; with 3 ranks the last
// one comes to the first pair.
inline at::Tensor adasum_of_all(const at::Tensor& rows) {
  if (rows.size(0) == 1) return rows[0];
  const at::Tensor first = adasum_of(rows[0], rows[1]);
  if (rows.size(0) == 2) return first;
  return adasum_of(first, rows.size(0) == 3 ? rows[2] : adasum_of(rows[2], rows[3]));
}

}  // namespace kolo::testing_support
