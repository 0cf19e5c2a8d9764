// Makes loader processes the source of a DataLoader.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "data/batch_source.hpp"
#include "delivery/client.hpp"

namespace kolo::delivery {

class RemoteSource : public data::BatchSource {
 public:
  RemoteSource(std::shared_ptr<Client> client, LoaderInfo info, std::size_t batch_size);

  std::size_t size() const override { return static_cast<std::size_t>(info_.samples); }
  Read reader(const std::vector<data::Transform>& transforms, std::uint64_t seed) const override;
  void interrupt() noexcept override;
  void resume() noexcept override { *is_interrupted_ = false; }

 private:
  const std::shared_ptr<Client> client_;
  const LoaderInfo info_;
  const std::size_t batch_size_;
  const std::shared_ptr<std::atomic<bool>> is_interrupted_;
};

}  // namespace kolo::delivery
