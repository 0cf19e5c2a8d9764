#include "benchmarks/benchmarks.hpp"

#include <kolo/init.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <utility>

#include "benchmarks/backward.hpp"
#include "benchmarks/contenders.hpp"
#include "benchmarks/direct_read.hpp"
#include "benchmarks/limit.hpp"
#include "benchmarks/rivals.hpp"
#include "benchmarks/sizes.hpp"
#include "benchmarks/train.hpp"
#include "benchmarks/tune.hpp"
#include "collectives/mpi/runtime.hpp"
#include "collectives/subset/transport.hpp"

namespace kolo::bench {
namespace {

constexpr int kMostRanksAsFloat16 = 8;  // each gives up to 255; see Pattern
constexpr int kGradientSamples = 40;
constexpr int kTrainSamples = 15;
// Tensors up to here stay in caches from one collective to the next, and one call is too short for
// a sample: what came before it would weigh more. Larger ones are compared with what memory allows.
constexpr std::int64_t kCached = 1 << 20;
// Below, a staging buffer is quicker than any call of the kernel.
constexpr std::int64_t kDirectFrom = 64 << 10;
constexpr std::size_t kFusedPieceBytes = std::size_t{1} << 20;

Contenders of_one_tensor(Group& group, const Parameter& tensor, Memory memory,
                         const std::string& prefix, Rivals& rivals) {
  Contenders contenders;
  contenders.push_back(kolo_synchronous(group, tensor, prefix, memory));
  contenders.push_back(mpi_one_by_one(group, {tensor}));
  rivals.add_allreduce(contenders, tensor, memory);
  if (tensor.elements() <= kCached / sizeof(float)) return contenders;
  const bool is_private = memory == Memory::kPrivate;
  if (!is_private) contenders.push_back(kolo_bfloat16(group, tensor, prefix + "bfloat16."));
  const auto make_limit = is_private ? make_link_limit : make_memory_limit;
  if (auto limit = make_limit(group, tensor.elements())) contenders.push_back(std::move(limit));
  return contenders;
}

// Whether it could be had.
bool add_direct_read(Contenders& contenders, Group& group, std::size_t elements) {
  auto direct = make_direct_read(group, elements);
  if (direct == nullptr) return false;
  contenders.push_back(std::move(direct));
  return true;
}

Contenders of_gradients(Group& group, const std::vector<Parameter>& parameters, Order order,
                        Names names, const std::string& prefix, Rivals& rivals) {
  Contenders contenders;
  contenders.push_back(kolo_gradients(group, parameters, prefix, order, names));
  contenders.push_back(mpi_one_by_one(group, parameters));
  contenders.push_back(mpi_fused(group, parameters, kFusedPieceBytes));
  std::size_t elements = 0;
  for (const Parameter& parameter : parameters) elements += parameter.elements();
  if (auto limit = make_link_limit(group, elements)) contenders.push_back(std::move(limit));
  rivals.add_reduction(contenders, parameters, order, names);
  return contenders;
}

Contenders of_backward(Group& group, const std::vector<Parameter>& parameters, bool as_float16,
                       Rivals& rivals, const Publish& publish) {
  const std::shared_ptr<BackwardModel> model = make_backward_model(parameters);
  Contenders contenders;
  contenders.push_back(kolo_backward(group, model));
  if (as_float16) {
    auto [built_in, written] = float16_backward(group, model);
    contenders.push_back(std::move(built_in));
    contenders.push_back(std::move(written));
  }
  contenders.push_back(no_communication(group, model));
  contenders.push_back(mpi_after_backward(group, model));
  if (auto reducer = reducer_during_backward(group, model)) {
    contenders.push_back(std::move(reducer));
  } else {
    publish.note("this LibTorch has no reducer that kolo knows; contender reducer is left out");
  }
  rivals.add_backward(contenders, parameters);
  return contenders;
}

// A transport of this rank's group, or of none, that rows are measured over.
std::unique_ptr<Transport> transport_of(Transport& world, const MessageGroup& all, int ranks,
                                        int rank) {
  if (all.mine.empty()) return nullptr;
  const std::vector<int> members(all.mine.begin(), all.mine.begin() + ranks);
  if (std::find(members.begin(), members.end(), rank) == members.end()) return nullptr;
  return make_subset_transport(world, members);
}

std::vector<double> times_of(const std::vector<std::vector<Sample>>& samples,
                             const Contenders& contenders, const std::string& name) {
  std::vector<double> times;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i]->name() != name) continue;
    times.reserve(samples[i].size());
    for (const Sample& sample : samples[i]) times.push_back(sample.microseconds);
  }
  return times;
}

// Medians of all samples, wherever the cores were: the table knows of no distance.
Timing timing_of(const std::vector<std::vector<Sample>>& samples, std::int64_t bytes) {
  Timing timing{static_cast<std::size_t>(bytes), {}};
  for (const std::vector<Sample>& of_one : samples) {
    std::vector<double> times;
    times.reserve(of_one.size());
    for (const Sample& sample : of_one) times.push_back(sample.microseconds);
    timing.microseconds.push_back(summarize(times).median);
  }
  return timing;
}

}  // namespace

std::vector<Row> measure_rows(Group& group, const Contenders& contenders, const Schedule& schedule,
                              const std::string& work, std::int64_t bytes) {
  return rows_of(measure(group, contenders, schedule), contenders, work, bytes);
}

std::vector<Row> rows_of(const std::vector<std::vector<Sample>>& samples,
                         const Contenders& contenders, const std::string& work,
                         std::int64_t bytes) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    for (Row& row :
         rows_of(samples[i], {work, contenders[i]->name(), {}, bytes, contenders[i]->placement()}))
      rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> rows_of(const std::vector<Sample>& samples, const Row& like) {
  std::vector<Row> rows;
  for (const Distance distance :
       {Distance::kUnknown, Distance::kNear, Distance::kFar, Distance::kMoved}) {
    std::vector<double> times;
    for (const Sample& sample : samples) {
      if (sample.distance == distance) times.push_back(sample.microseconds);
    }
    if (times.empty()) continue;
    rows.push_back(like);
    rows.back().microseconds = summarize(times);
    rows.back().distance = distance;
  }
  return rows;
}

Schedule schedule_of(const Options& options, std::int64_t bytes, int ranks) {
  return {options.warm_up, options.samples > 0 ? options.samples : default_samples(bytes),
          bytes <= kCached, bytes <= kCached ? Pattern::most_calls(ranks, options.calls) : 1};
}

void bench_allreduce(Group& group, const Options& options, const Publish& publish) {
  std::vector<Memory> memories = {Memory::kPrivate};
  if (usual_memory() == Memory::kArena) memories.insert(memories.begin(), Memory::kArena);
  const std::vector<std::int64_t> sizes = sizes_between(options.min_bytes, options.max_bytes);
  Rivals rivals(group, options, publish);
  rivals.start_gloo(static_cast<std::size_t>(sizes.back()) / sizeof(float));
  rivals.start_horovod();
  rivals.start_tuned_mpi();
  bool reads_directly = group.size() > 1;
  for (const std::int64_t bytes : sizes) {
    for (const Memory memory : memories) {
      const Parameter tensor{std::to_string(bytes), {bytes / 4}};
      const std::string work = "allreduce/" + tensor.name + "/" + name_of(memory) + "/";
      Contenders contenders = of_one_tensor(group, tensor, memory, "bench." + work, rivals);
      if (memory == Memory::kPrivate && bytes >= kDirectFrom && reads_directly) {
        reads_directly = add_direct_read(contenders, group, tensor.elements());
        if (!reads_directly)
          publish.note("ranks cannot read each other's memory; contender direct-read is left out");
      }
      publish.rows(measure_rows(group, contenders, schedule_of(options, bytes, group.size()),
                                work + std::to_string(group.size()), bytes));
    }
  }
}

void bench_gradients(Group& group, const Options& options, const Publish& publish) {
  if (options.as_float16 && group.size() > kMostRanksAsFloat16) {
    throw RunFailed("--float16 is for up to " + std::to_string(kMostRanksAsFloat16) +
                    " ranks, whose sums float16 holds exactly");
  }
  const std::vector<Parameter> parameters = parameters_of(options.model).value();
  const std::size_t elements = elements_of(parameters);
  const auto bytes = static_cast<std::int64_t>(elements * sizeof(float));
  const Schedule schedule{options.warm_up,
                          options.samples > 0 ? options.samples : kGradientSamples};
  const std::string work = options.model + "/" + std::to_string(group.size());
  const Order order = options.model == "tiny1000" ? Order::kShuffled : Order::kBackward;
  Rivals rivals(group, options, publish);
  rivals.start_gloo(elements);
  rivals.start_horovod();
  Schedule steady = schedule;
  steady.rehearses = true;
  publish.rows(measure_rows(
      group, of_gradients(group, parameters, order, Names::kKnown, "bench.reduction.", rivals),
      steady, "reduction/" + work, bytes));
  publish.rows(measure_rows(group,
                            of_backward(group, parameters, options.as_float16, rivals, publish),
                            schedule, "gradients/" + work, bytes));
}

void bench_negotiate(Group& group, const Options& options, const Publish& publish) {
  Rivals rivals(group, options, publish);
  rivals.start_horovod();
  for (const int tensors : {10, 100, 1000, 10000}) {
    if (tensors > options.max_tensors) break;
    std::vector<Parameter> parameters;
    parameters.reserve(static_cast<std::size_t>(tensors));
    for (int i = 0; i < tensors; ++i) parameters.push_back({std::to_string(i), {1}});
    for (const Names names : {Names::kKnown, Names::kNew}) {
      const std::string work =
          "negotiate/" + std::to_string(tensors) + (names == Names::kKnown ? "/steady/" : "/cold/");
      const Contenders contenders =
          of_gradients(group, parameters, Order::kShuffled, names, "bench." + work, rivals);
      const Schedule schedule{options.warm_up,
                              options.samples > 0 ? options.samples : kGradientSamples,
                              names == Names::kKnown};
      publish.rows(measure_rows(group, contenders, schedule, work + std::to_string(group.size()),
                                std::int64_t{tensors} * 4));
    }
  }
}

void bench_tune(Group& group, const Options& options, const Publish& publish) {
  const MessageGroup all = find_message_group(group.nodes(), group.rank());
  if (all.size < 2)
    throw RunFailed("tune needs two ranks at least, which send each other messages");
  if (cross_size() == 1) publish.note("all ranks are on one node, where kolo sends no messages");
  std::unique_ptr<Transport> world;
  throw_if_error(make_mpi_transport({}, std::nullopt, world));
  AllreduceTable table;
  table.groups.clear();
  for (const int ranks : sizes_of_groups(all.size)) {
    const auto transport = transport_of(*world, all, ranks, group.rank());
    std::vector<Timing> timings;
    for (const std::int64_t bytes : sizes_between(options.min_bytes, options.max_bytes)) {
      const auto contenders = algorithm_contenders(group, transport.get(),
                                                   static_cast<std::size_t>(bytes) / sizeof(float));
      const auto samples = measure(group, contenders, schedule_of(options, bytes, ranks));
      const std::string work = "tune/" + std::to_string(bytes) + "/" + std::to_string(ranks);
      publish.rows(rows_of(samples, contenders, work, bytes));
      timings.push_back(timing_of(samples, bytes));
    }
    table.groups[ranks] = rows_of(timings);
  }
  publish.table(table);
}

void bench_train(Group& group, const Options& options, const Publish& publish) {
  const TrainingSize size{options.batch_size, options.steps};
  const Contenders contenders =
      training_contenders(group, size, std::filesystem::read_symlink("/proc/self/exe").string());
  const Schedule schedule{options.warm_up, options.samples > 0 ? options.samples : kTrainSamples};
  auto samples = measure(group, contenders, schedule);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const std::string name = contenders[i]->name();
    const double images =
        static_cast<double>(size.batch) * size.steps * (name == "single" ? 1 : group.size());
    for (Sample& sample : samples[i]) sample.microseconds /= images;
    const Row like{"train/mnist/" + std::to_string(group.size()),
                   name,
                   {},
                   std::int64_t{size.batch} * 28 * 28 * 4,
                   ""};
    for (Row& row : rows_of(samples[i], like)) rows.push_back(std::move(row));
  }
  publish.rows(rows);
  const auto compare_with_kolo = [&](const std::string& name, const std::string& what) {
    const Ratio ratio =
        ratio_of_pairs(times_of(samples, contenders, name), times_of(samples, contenders, "kolo"));
    std::ostringstream text;
    text << std::fixed << std::setprecision(3) << "a step " << what << " takes " << ratio.median
         << " times as long as one without (median of " << ratio.pairs << " pairs; 95 % interval "
         << ratio.low << " to " << ratio.high << ")";
    publish.note(text.str());
  };
  compare_with_kolo("kolo-timeline", "whose timeline is written");
  compare_with_kolo("kolo-trainer", "of a Trainer");
}

}  // namespace kolo::bench
