#include "collectives/nccl/preparation.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "collectives/nccl/check.hpp"
#include "core/host.hpp"

namespace kolo::nccl {
namespace {

// A rank's description of itself, sent as its bytes in memory.
struct Card {
  int rank = 0;  // in the world
  char host[64] = {};
  char boot[40] = {};      // tells apart hosts of the same name, such as containers
  char bus[32] = {};       // the device's address on the PCI bus of its host
  char failure[192] = {};  // why the rank has no device; empty if it has one
  ncclUniqueId id = {};    // rank 0's
};

void set_text(char* field, std::size_t size, const std::string& text) {
  const std::size_t length = std::min(size - 1, text.size());
  std::copy_n(text.begin(), length, field);
  field[length] = '\0';
}

class Preparation final : public Work {
 public:
  Preparation(Communicator& communicator, const DeviceCard& device)
      : communicator_(communicator),
        device_(device),
        cards_(static_cast<std::size_t>(communicator.size())) {}

  // One of these must be called before start(). With exchange(), all ranks see all cards. With
  // pass_on(), the higher of two ranks sees the card of the lower.
  void exchange(Backend& host, Turn turn) {
    exchange_ = host.make(turn, collective::Allgather{cards_.data(), boundaries(host.size())});
  }
  void pass_on(Backend& host, Turn turn, int lower, int higher) {
    exchange_ = host.make(turn, collective::Transfer{cards_.data(), sizeof(Card), lower, higher});
  }

  Status start() override {
    write_own_card();
    return exchange_->start();
  }

  Progress step(Status& status) override {
    if (exchange_ != nullptr) {
      const Progress progress = exchange_->step(status);
      if (progress != Progress::kDone) return progress;
      exchange_.reset();
      status = begin();
      return status.is_ok() ? Progress::kAdvanced : Progress::kFailed;
    }
    return communicator_.settle(status);
  }

 private:
  static std::vector<std::size_t> boundaries(int size) {
    std::vector<std::size_t> result;
    for (int rank = 0; rank <= size; ++rank)
      result.push_back(static_cast<std::size_t>(rank) * sizeof(Card));
    return result;
  }

  // Puts a failure on the card too, so that no rank waits for this one.
  void write_own_card() {
    Card& card = cards_[static_cast<std::size_t>(communicator_.rank())];
    card.rank = device_.rank;
    set_text(card.host, sizeof card.host, host_name());
    set_text(card.boot, sizeof card.boot, boot_id());
    Status status = cuda_status(cudaDeviceGetPCIBusId(card.bus, sizeof card.bus, device_.device),
                                "cudaDeviceGetPCIBusId");
    if (status.is_ok() && communicator_.rank() == 0)
      status = nccl_status(ncclGetUniqueId(&card.id), "ncclGetUniqueId");
    if (!status.is_ok()) set_text(card.failure, sizeof card.failure, status.message());
  }

  Status begin() const {
    for (const Card& card : cards_) {
      if (card.failure[0] == '\0') continue;
      return Status::internal("rank " + std::to_string(card.rank) +
                              " has no device to reduce on: " + card.failure);
    }
    if (Status s = find_shared(); !s.is_ok()) return s;
    return communicator_.begin(cards_[0].id);
  }

  Status find_shared() const {
    for (std::size_t one = 0; one < cards_.size() && !device_.may_share; ++one) {
      for (std::size_t other = one + 1; other < cards_.size(); ++other) {
        if (std::strcmp(cards_[one].host, cards_[other].host) != 0 ||
            std::strcmp(cards_[one].boot, cards_[other].boot) != 0 ||
            std::strcmp(cards_[one].bus, cards_[other].bus) != 0)
          continue;
        return Status::invalid_argument(
            "ranks " + std::to_string(cards_[one].rank) + " and " +
            std::to_string(cards_[other].rank) + " have their tensors on the same GPU (" +
            cards_[one].bus + " of " + cards_[one].host +
            "): give each rank a GPU of its own (kolo::local_device()), start fewer ranks per "
            "node, or set KOLO_SHARE_DEVICE=1, which is slow");
      }
    }
    return Status::ok();
  }

  Communicator& communicator_;
  const DeviceCard device_;
  std::vector<Card> cards_;
  std::unique_ptr<Work> exchange_;  // null when it is done
};

}  // namespace

std::unique_ptr<Work> make_preparation(Backend& host, Turn turn, Communicator& communicator,
                                       const DeviceCard& device) {
  auto preparation = std::make_unique<Preparation>(communicator, device);
  preparation->exchange(host, turn);
  return preparation;
}

std::unique_ptr<Work> make_pair_preparation(Backend& host, Turn turn, Communicator& communicator,
                                            const DeviceCard& device, int lower, int higher) {
  auto preparation = std::make_unique<Preparation>(communicator, device);
  preparation->pass_on(host, turn, lower, higher);
  return preparation;
}

}  // namespace kolo::nccl
