// Communication of checkpoints between ranks, over kolo's own operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "kolo/process_set.h"

namespace kolo::checkpoint {

// Calls the function, and returns its failure as a status, or ok.
Status status_of(const std::function<void()>& call);

// Encodings for messages between ranks. Numbers keep their representation in memory.
template <typename T>
std::string raw(const std::vector<T>& list) {
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T)};
}
template <typename T>
std::vector<T> list_of(const std::string& bytes) {
  std::vector<T> list(bytes.size() / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), bytes.data(), list.size() * sizeof(T));
  return list;
}
std::string encode_status(const Status& status);
Status decode_status(const std::string& text);  // throws DataError

// Collective. If a rank failed, throws the same on all ranks: the exception for the status of the
// lowest such rank, which the message names.
void agree(const Status& mine, const std::string& name, const ProcessSet& set = {});
void throw_first(const std::vector<Status>& by_rank);

// Collective. Throws MismatchError, which names the first difference, if ranks have different
// lines. `what`: such as "have different things to save".
void agree_on(const std::vector<std::string>& lines, const std::string& what);

// Collective. Broadcasts the bytes of contiguous tensors in CPU memory from rank `root`, in place.
void broadcast_bytes(const std::vector<at::Tensor>& tensors, int root);

// Collective. Sends the r-th list of bytes to rank r; returns what each rank sent to this one.
std::vector<at::Tensor> exchange(const std::vector<at::Tensor>& for_ranks);

}  // namespace kolo::checkpoint
