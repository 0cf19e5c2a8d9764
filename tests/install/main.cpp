#include <ATen/ATen.h>
#include <kolo/kolo.h>

#include <cstdio>

int main() {
  kolo::init();
  const at::Tensor sum = kolo::allreduce(at::ones({3}), kolo::ReduceOp::Sum);
  const bool right = sum.equal(at::full({3}, static_cast<float>(kolo::size())));
  if (kolo::rank() == 0) std::printf("%d ranks, %s\n", kolo::size(), right ? "right" : "wrong");
  kolo::shutdown();
  return right ? 0 : 1;
}
