// kolo bench device: what a GPU does for kolo, and what the host does.
#include <kolo/device.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/backward.hpp"
#include "benchmarks/benchmarks.hpp"
#include "collectives/nccl/check.hpp"
#include "collectives/nccl/device_memory.hpp"
#include "collectives/nccl/streams.hpp"
#include "engine/bucket_layout.hpp"

namespace kolo::bench {
namespace {

constexpr int kDeviceSamples = 40;
constexpr int kPacksInSample = 20;

// A model's gradients on the device, and a buffer that they come into.
class IntoBuffer : public Contender {
 public:
  IntoBuffer(const Group& group, std::string name, const std::vector<Parameter>& parameters,
             at::Device device)
      : name_(std::move(name)), rank_(group.rank()), device_(device) {
    std::vector<std::size_t> sizes;
    for (const Parameter& parameter : parameters) {
      names_.push_back(parameter.name);
      sizes.push_back(parameter.elements() * sizeof(float));
      sources_.push_back(torch::empty({static_cast<std::int64_t>(parameter.elements())}, device_));
    }
    layout_ = layout_bucket(sizes);
    const auto elements = static_cast<std::int64_t>(layout_.bytes / sizeof(float));
    host_ = torch::zeros({elements});
    buffer_ = torch::empty({elements}, device_);
    const auto events = std::make_shared<nccl::Events>(device.index());
    std::unique_ptr<nccl::Streams> streams;
    throw_if_error(nccl::Streams::create(events, streams));
    streams_ = std::move(streams);
  }

  std::string name() const override { return name_; }

  void refresh(const Pattern& pattern) override {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const at::Tensor on_host = part_on_host(i);
      const auto count = static_cast<std::size_t>(on_host.numel());
      pattern.fill(on_host.data_ptr<float>(), count, offset);
      offset += count;
      sources_[i].copy_(on_host);
    }
    buffer_.zero_();
    write_other_sources(host_);
    static_cast<void>(buffer_[0].item<float>());  // all has come to pass
  }

  void run() override { repeat(1); }
  void repeat(int calls) override {
    const nccl::OnDevice here(device_.index());
    throw_if_error(here.status());
    std::shared_ptr<nccl::Point> begin;
    std::shared_ptr<nccl::Point> end;
    throw_if_error(record(begin));
    for (int i = 0; i < calls * kPacksInSample; ++i) enqueue();
    throw_if_error(record(end));
    throw_if_error(
        nccl::cuda_status(cudaStreamSynchronize(streams_->packing()), "cudaStreamSynchronize"));
    float milliseconds = 0;
    throw_if_error(nccl::cuda_status(
        cudaEventElapsedTime(&milliseconds, begin->event(), end->event()), "cudaEventElapsedTime"));
    microseconds_ = milliseconds * 1e3 / kPacksInSample;
  }
  std::optional<double> measured_microseconds() const override { return microseconds_; }

  std::string check(const Pattern& pattern) override {
    const at::Tensor all = (buffer_ * sign()).cpu();
    std::size_t offset = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const auto count = static_cast<std::size_t>(sources_[i].numel());
      const float* const data = all.const_data_ptr<float>() + layout_.offsets[i] / sizeof(float);
      const auto difference = pattern.first_difference_from(rank_, data, count, offset);
      if (difference) return describe(*difference, "'" + names_[i] + "' in the buffer", rank_);
      offset += count;
    }
    return "";
  }

 protected:
  virtual void enqueue() = 0;
  virtual void write_other_sources(const at::Tensor& /*host*/) {}
  virtual double sign() const { return 1; }

  const std::shared_ptr<nccl::Streams>& streams() const { return streams_; }
  const at::Tensor& buffer() const { return buffer_; }
  std::vector<Piece> pieces() const {
    std::vector<Piece> all;
    auto* const begin = static_cast<std::byte*>(buffer_.data_ptr());
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      Piece piece;
      piece.at = begin + layout_.offsets[i];
      piece.from = static_cast<const std::byte*>(sources_[i].const_data_ptr());
      piece.bytes = sources_[i].nbytes();
      all.push_back(piece);
    }
    return all;
  }

 private:
  at::Tensor part_on_host(std::size_t index) const {
    return host_.narrow(0, static_cast<std::int64_t>(layout_.offsets[index] / sizeof(float)),
                        sources_[index].numel());
  }
  Status record(std::shared_ptr<nccl::Point>& point) const {
    return streams_->events()->record(streams_->packing(), point, nccl::Events::Kind::kTimed);
  }

  const std::string name_;
  const int rank_;
  const at::Device device_;
  std::vector<std::string> names_;
  BucketLayout layout_;
  at::Tensor host_;                  // as the buffer shall be
  at::Tensor buffer_;                // on the device
  std::vector<at::Tensor> sources_;  // likewise
  std::shared_ptr<nccl::Streams> streams_;
  double microseconds_ = 0;
};

// kolo's kernel for a bucket, or the one that also scales.
class Pack final : public IntoBuffer {
 public:
  Pack(const Group& group, const std::vector<Parameter>& parameters, at::Device device,
       double factor)
      : IntoBuffer(group, factor == 1 ? "kolo" : "kolo-scaled", parameters, device),
        factor_(factor),
        pieces_(pieces()),
        memory_(streams(), nullptr) {}

 private:
  void enqueue() override {
    throw_if_error(memory_.put(pieces_, DType::kFloat32, ReduceOp::Sum, factor_));
  }
  double sign() const override { return factor_; }  // 1 or -1

  const double factor_;
  const std::vector<Piece> pieces_;
  nccl::DeviceMemory memory_;
};

// What the device can do: a copy of as many bytes that lie together.
class Copy final : public IntoBuffer {
 public:
  Copy(const Group& group, const std::vector<Parameter>& parameters, at::Device device)
      : IntoBuffer(group, "copy", parameters, device), whole_(torch::empty_like(buffer())) {}

 private:
  void write_other_sources(const at::Tensor& host) override { whole_.copy_(host); }
  void enqueue() override {
    throw_if_error(nccl::cuda_status(
        cudaMemcpyAsync(buffer().data_ptr(), whole_.const_data_ptr(), whole_.nbytes(),
                        cudaMemcpyDeviceToDevice, streams()->packing()),
        "cudaMemcpyAsync"));
  }

  const at::Tensor whole_;
};

Contenders steps(const Group& group, const std::shared_ptr<BackwardModel>& model, Until until) {
  Contenders contenders;
  contenders.push_back(kolo_step(group, model, until));
  contenders.push_back(plain_step(group, model, until));
  return contenders;
}

}  // namespace

void bench_device(Group& group, const Options& options, const Publish& publish) {
  at::Device device(at::kCPU);
  together(group,
           [&] { device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(local_device())); });
  const std::vector<Parameter> parameters = parameters_of(options.model).value();
  const auto bytes = static_cast<std::int64_t>(elements_of(parameters) * sizeof(float));
  const Schedule schedule{options.warm_up, options.samples > 0 ? options.samples : kDeviceSamples};
  const std::string work = "/" + options.model + "/" + std::to_string(group.size());
  {
    Contenders into_buffer;
    into_buffer.push_back(std::make_unique<Pack>(group, parameters, device, 1));
    into_buffer.push_back(std::make_unique<Pack>(group, parameters, device, -1));
    into_buffer.push_back(std::make_unique<Copy>(group, parameters, device));
    publish.rows(measure_rows(group, into_buffer, schedule, "pack" + work, bytes));
  }
  const std::shared_ptr<BackwardModel> model = make_backward_model(parameters, device);
  publish.rows(measure_rows(group, steps(group, model, Until::kHostIsFree), schedule,
                            "step-host" + work, bytes));
  publish.rows(measure_rows(group, steps(group, model, Until::kDeviceIsDone), schedule,
                            "step" + work, bytes));
}

}  // namespace kolo::bench
