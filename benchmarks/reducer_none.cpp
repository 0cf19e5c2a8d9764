#include "benchmarks/reducer.hpp"

namespace kolo::bench {

std::unique_ptr<OverlappingReducer> make_reducer(const std::vector<at::Tensor>& /*parameters*/) {
  return nullptr;
}

}  // namespace kolo::bench
