// The heat equation on a periodic square, cut into strips of rows, one for each rank of a
// communicator.
#pragma once

#include <kolo/mpi.h>
#include <torch/torch.h>

#include <cstdint>

namespace in_situ {

// Steps between two exchanges of rows, and rows that are exchanged: each step needs one row more on
// either side than it gives.
constexpr std::int64_t kSteps = 4;

class Heat {
 public:
  // A square of `size` by `size` cells. `size` is a multiple of the number of ranks, and each has
  // at least kSteps rows.
  Heat(MPI_Comm comm, std::int64_t size, std::uint64_t seed);

  // Heats some random spots, so that there is always something to see. The same ones on all ranks.
  void heat_up();
  // Collective over the communicator: kSteps explicit steps (FTCS).
  void advance();

  // This rank's rows, with kSteps rows of the neighbours on either side, before advance().
  const torch::Tensor& before() const { return before_; }
  // This rank's rows: float32 [size / ranks, size].
  const torch::Tensor& now() const { return now_; }

 private:
  torch::Tensor with_neighbours() const;

  MPI_Comm comm_;
  int rank_ = 0;
  int ranks_ = 1;
  std::int64_t size_;
  torch::Generator random_;
  torch::Tensor now_;
  torch::Tensor before_;
};

}  // namespace in_situ
