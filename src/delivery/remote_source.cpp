#include "delivery/remote_source.hpp"

#include <utility>

#include "data/batch_reader.hpp"
#include "delivery/tensors.hpp"

namespace kolo::delivery {

RemoteSource::RemoteSource(std::shared_ptr<Client> client, LoaderInfo info, std::size_t batch_size)
    : client_(std::move(client)),
      info_(std::move(info)),
      batch_size_(batch_size),
      is_interrupted_(std::make_shared<std::atomic<bool>>(false)) {}

data::BatchSource::Read RemoteSource::reader(const std::vector<data::Transform>& transforms,
                                             std::uint64_t seed) const {
  return [client = client_, info = info_, batch_size = batch_size_,
          is_interrupted = is_interrupted_, transforms, seed](const data::BatchRequest& wanted) {
    const Request request{
        info.name, wanted.epoch, wanted.position, {wanted.indices.begin(), wanted.indices.end()}};
    data::Batch batch =
        to_batch(client->load(request, wanted.position / batch_size, *is_interrupted));
    try {
      data::apply(transforms, info.transforms, seed, wanted.epoch, wanted.indices, batch);
    } catch (...) {
      data::throw_not_loaded(data::name_all(wanted.indices), wanted.epoch);
    }
    return batch;
  };
}

void RemoteSource::interrupt() noexcept {
  *is_interrupted_ = true;
  client_->wake();
}

}  // namespace kolo::delivery
