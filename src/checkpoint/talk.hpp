// What checkpoints say between ranks, over kolo's own operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "kolo/process_set.h"

namespace kolo::checkpoint {

// The failure that a function ended with, or none.
Status status_of(const std::function<void()>& call);

// What crosses ranks. Numbers go as they lie in memory.
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

// Collective. Throws the same on all ranks if a rank failed: the exception that belongs to the
// lowest such rank's status, which the message names.
void agree(const Status& mine, const std::string& name, const ProcessSet& set = {});
void throw_first(const std::vector<Status>& by_rank);

// Collective. Throws MismatchError, which names the first difference, where ranks have different
// lines. `what`: "have different things to save".
void agree_on(const std::vector<std::string>& lines, const std::string& what);

// Collective. The bytes of contiguous tensors in memory that the CPU sees, from rank `root`, in
// place.
void broadcast_bytes(const std::vector<at::Tensor>& tensors, int root);

// Collective. Gives rank r the r-th list of bytes; returns what the ranks have for this one.
std::vector<at::Tensor> exchange(const std::vector<at::Tensor>& for_ranks);

}  // namespace kolo::checkpoint
