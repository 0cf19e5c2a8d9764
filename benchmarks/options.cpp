#include "benchmarks/options.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <iterator>
#include <limits>
#include <sstream>

#include "benchmarks/models.hpp"

namespace po = boost::program_options;

namespace kolo::bench {
namespace {

// The plain MPI twin counts elements in an int.
constexpr std::int64_t kMostBytes = std::int64_t{std::numeric_limits<int>::max()} * 4;

constexpr std::int64_t kOperationsMostBytes = 64 << 20;
constexpr int kLoadingSteps = 200;
constexpr std::int64_t kAllocateLeastBytes = 64 << 10;
constexpr std::int64_t kAllocateMostBytes = 64 << 20;

constexpr const char* kUsage =
    "Usage: kolo bench NAME [-np N] [options]\n"
    "   or: mpirun -np N kolo-bench NAME [options]\n\n"
    "Benchmarks:\n"
    "  allocate    memory for tensors, by size and threads, beside LibTorch's own allocator\n"
    "  allreduce   float32 sums in place, by size, beside MPI_Allreduce and torch.distributed\n"
    "  checkpoint  saving and restoring a state, beside write(), torch::save() and\n"
    "              torch.distributed.checkpoint\n"
    "  device      on a GPU: packing a model's gradients, beside a copy, and a step, beside\n"
    "              LibTorch's optimizer\n"
    "  gradients   a model's gradients, with and without backward, beside MPI_Allreduce,\n"
    "              LibTorch's own reducer over MPI, and PyTorch's DistributedDataParallel\n"
    "  idle        the CPU time of a job that does nothing, in a second\n"
    "  loading     samples from files, by form, order and number of workers, beside LibTorch's\n"
    "              loader and plain reads; a rank's waits, with threads and loader processes\n"
    "  negotiate   what agreeing costs, by number of tensors, with known and with new names\n"
    "  operations  each operation, by size, beside plain MPI and torch.distributed\n"
    "  optimizer   a step of a model's parameters, fused, beside LibTorch's own optimizers\n"
    "  small       a step of a small network, beside one MPI_Allreduce of all its gradients and\n"
    "              LibTorch's own reducer over MPI\n"
    "  train       the MNIST network, beside LibTorch processes that do not communicate\n"
    "  tune        the algorithms for an allreduce over messages; writes a table\n\n";

constexpr const char* kNames[] = {"allocate", "allreduce", "checkpoint", "device",     "gradients",
                                  "idle",     "loading",   "negotiate",  "operations", "optimizer",
                                  "small",    "train",     "tune"};

// "allreduce, gradients, ..."
std::string listed_names() {
  std::string names;
  for (const char* name : kNames) names += std::string(names.empty() ? "" : ", ") + name;
  return names;
}

std::string listed(const std::vector<Operation>& operations) {
  std::string names;
  for (const Operation operation : operations)
    names += (names.empty() ? "" : ", ") + name_of(operation);
  return names;
}

void add_options(const std::string& benchmark, Options& o, po::options_description& table) {
  auto add = table.add_options();
  if (benchmark == "gradients" || benchmark == "device" || benchmark == "optimizer") {
    add("model", po::value(&o.model)->default_value(o.model), "whose gradients: resnet50");
  } else if (benchmark == "checkpoint") {
    add("bytes", po::value(&o.bytes)->default_value(o.bytes), "of the state");
    add("tensors", po::value(&o.tensors)->default_value(o.tensors), "of which it is made");
    add("folder", po::value(&o.folder)->value_name("DIR")->default_value(o.folder),
        "where files are written, in a folder that is removed at the end");
  } else if (benchmark == "negotiate") {
    add("max-tensors", po::value(&o.max_tensors)->default_value(o.max_tensors),
        "of 10, 100, 1000 and 10000 tensors, no more than that");
  } else if (benchmark == "train") {
    add("batch-size", po::value(&o.batch_size)->default_value(o.batch_size),
        "images a rank and step");
    add("steps", po::value(&o.steps)->default_value(o.steps), "training steps a sample");
  } else if (benchmark == "loading") {
    o.steps = kLoadingSteps;
    add("steps", po::value(&o.steps)->default_value(o.steps),
        "training steps of an epoch, in the rows with loader processes");
  } else if (benchmark != "idle" && benchmark != "small") {
    add("min-bytes", po::value(&o.min_bytes)->default_value(o.min_bytes),
        "the smallest tensor, a multiple of 4; each next one is four times as large");
    add("max-bytes", po::value(&o.max_bytes)->default_value(o.max_bytes), "no tensor is larger");
  }
  if (benchmark == "gradients") {
    add("float16", po::bool_switch(&o.as_float16),
        "gradients that are sent as float16 take part, too (up to 8 ranks)");
  }
  if (benchmark == "tune") {
    add("output", po::value(&o.output)->value_name("FILE"),
        "write the table for KOLO_ALLREDUCE_TABLE to this file (default: print it)");
  }
  if (benchmark == "allreduce" || benchmark == "operations" || benchmark == "tune") {
    add("calls", po::value(&o.calls)->default_value(o.calls),
        "calls in a row that make a sample of a tensor of up to 1 MiB");
  }
  if (benchmark == "small") {
    add("calls", po::value(&o.calls)->default_value(o.calls), "steps in a row that make a sample");
  }
  if (benchmark == "operations") {
    add("only", po::value<std::string>()->value_name("NAME,..."),
        ("these operations alone, of " + listed(all_operations())).c_str());
  }
  const auto takes_python = {"allreduce", "checkpoint", "gradients",
                             "loading",   "negotiate",  "operations"};
  if (std::find(takes_python.begin(), takes_python.end(), benchmark) != takes_python.end()) {
    add("python", po::value(&o.python)->value_name("PATH"),
        benchmark == "loading"
            ? "a Python that has torch and h5py: its DataLoader takes part, too"
            : "a Python that has torch, and may have Horovod: they take part, too");
  }
  add("samples", po::value(&o.samples)->default_value(o.samples),
      "samples of each contender; 0: chosen by size");
  add("warm-up", po::value(&o.warm_up)->default_value(o.warm_up),
      "samples before them that do not count");
  add("json", po::value(&o.json)->value_name("FILE"), "write the results to this file, too");
  add("help", "show this and end");
}

void check(bool holds, const std::string& message) {
  if (!holds) throw UsageError(message);
}

// "allreduce,barrier"
std::vector<Operation> parse_operations(const std::string& text) {
  std::vector<Operation> operations;
  std::istringstream names(text + ",");
  for (std::string name; std::getline(names, name, ',');) {
    const std::optional<Operation> operation = operation_of(name);
    check(operation.has_value(),
          "--only: there is no operation '" + name + "'; there are " + listed(all_operations()));
    operations.push_back(*operation);
  }
  return operations;
}

void check_ranges(const Options& o) {
  check(o.min_bytes >= 4 && o.min_bytes % 4 == 0,
        "--min-bytes must be a multiple of 4, at least 4");
  check(o.max_bytes >= o.min_bytes, "--max-bytes must be at least --min-bytes");
  check(o.max_bytes <= kMostBytes, "--max-bytes must be at most " + std::to_string(kMostBytes));
  check(o.max_tensors >= 10, "--max-tensors must be at least 10");
  check(o.tensors >= 1, "--tensors must be at least 1");
  check(o.bytes >= std::int64_t{4} * o.tensors && o.bytes % (std::int64_t{4} * o.tensors) == 0,
        "--bytes must be a multiple of 4 times --tensors");
  check(!o.folder.empty(), "--folder needs a folder");
  check(o.batch_size >= 2, "--batch-size must be at least 2");
  check(o.steps >= 1, "--steps must be at least 1");
  check(o.samples >= 0, "--samples must be at least 1, or 0 to let the benchmark choose");
  check(o.calls >= 1, "--calls must be at least 1");
  check(o.warm_up >= 0, "--warm-up must be at least 0");
  if (parameters_of(o.model)) return;
  std::string known;
  for (const std::string& name : model_names()) known += (known.empty() ? "" : ", ") + name;
  throw UsageError("--model " + o.model + " is not known; known: " + known);
}

void check_name(const std::string& benchmark) {
  if (std::find(std::begin(kNames), std::end(kNames), benchmark) != std::end(kNames)) return;
  throw UsageError("there is no benchmark '" + benchmark + "'; there are " + listed_names());
}

// The words after the benchmark's name.
void read_options(const std::vector<std::string>& words, Options& o) {
  po::options_description table("Options of " + o.benchmark);
  add_options(o.benchmark, o, table);
  po::variables_map values;
  po::store(po::command_line_parser(words).options(table).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::ostringstream text;
    text << kUsage << table;
    o.help = text.str();
    return;
  }
  po::notify(values);
  check(values.count("json") == 0 || !o.json.empty(), "--json needs a file");
  check(values.count("output") == 0 || !o.output.empty(), "--output needs a file");
  check(values.count("python") == 0 || !o.python.empty(), "--python needs a program");
  if (values.count("only") > 0) o.only = parse_operations(values["only"].as<std::string>());
  check_ranges(o);
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  check(!arguments.empty(), "which benchmark? There are " + listed_names());
  o.benchmark = arguments.front();
  if (o.benchmark == "--help" || o.benchmark == "-h") {
    o.help = std::string(kUsage) + "'kolo bench NAME --help' lists the options of a benchmark.\n";
    return o;
  }
  check_name(o.benchmark);
  if (o.benchmark == "operations" || o.benchmark == "tune") o.max_bytes = kOperationsMostBytes;
  if (o.benchmark == "checkpoint") o.warm_up = 1;
  if (o.benchmark == "allocate") {
    o.min_bytes = kAllocateLeastBytes;
    o.max_bytes = kAllocateMostBytes;
  }
  try {
    read_options({arguments.begin() + 1, arguments.end()}, o);
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  return o;
}

}  // namespace kolo::bench
