// From LibTorch's tensors to what the engine works on.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "coordinator/operation.hpp"

namespace kolo {

// Makes the operation that works on `tensors` in place; descriptor.tensors is filled in. Where a
// tensor is not contiguous the engine works on a copy, which is copied back at the end. Throws
// InvalidArgumentError, naming `what` ("allreduce of 'x'"), for tensors that kolo cannot take.
std::shared_ptr<Operation> make_operation(const std::string& what, const std::string& name,
                                          const std::vector<at::Tensor>& tensors,
                                          Descriptor descriptor);

// What a gather brings: for each tensor the rows of all ranks, and how many came from each.
struct Gathered {
  std::vector<at::Tensor> tensors;
  std::vector<std::vector<std::int64_t>> rows;
};

// Makes the operation that gathers rows of `tensors`, without changing them. Fills `gathered`.
std::shared_ptr<Operation> make_gather(const std::string& what, const std::string& name,
                                       const std::vector<at::Tensor>& tensors, OpKind kind,
                                       const std::shared_ptr<Gathered>& gathered);

// "tensor 3 of " in messages about a group.
std::string which(std::size_t index, std::size_t of);

// Refuses tensors that kolo cannot take.
void check(const std::string& what, const at::Tensor& tensor);

// A copy to work on for operations that are not in place: contiguous, without autograd's history.
at::Tensor working_copy(const std::string& what, const at::Tensor& tensor);

}  // namespace kolo
