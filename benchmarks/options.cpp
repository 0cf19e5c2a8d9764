#include "benchmarks/options.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <limits>
#include <sstream>

#include "benchmarks/models.hpp"

namespace po = boost::program_options;

namespace kolo::bench {
namespace {

// The plain MPI twin counts elements in an int.
constexpr std::int64_t kMostBytes = std::int64_t{std::numeric_limits<int>::max()} * 4;

constexpr const char* kUsage =
    "Usage: kolo bench NAME [-np N] [options]\n"
    "   or: mpirun -np N kolo-bench NAME [options]\n\n"
    "Benchmarks:\n"
    "  allreduce   float32 sums in place, by size, beside MPI_Allreduce\n"
    "  gradients   a model's gradients, beside MPI_Allreduce one by one and fused\n\n";

void add_options(const std::string& benchmark, Options& o, po::options_description& table) {
  auto add = table.add_options();
  if (benchmark == "allreduce") {
    add("min-bytes", po::value(&o.min_bytes)->default_value(o.min_bytes),
        "the smallest tensor, a multiple of 4; each next one is four times as large");
    add("max-bytes", po::value(&o.max_bytes)->default_value(o.max_bytes), "no tensor is larger");
  } else {
    add("model", po::value(&o.model)->default_value(o.model), "whose gradients: resnet50");
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

void check_ranges(const Options& o) {
  check(o.min_bytes >= 4 && o.min_bytes % 4 == 0,
        "--min-bytes must be a multiple of 4, at least 4");
  check(o.max_bytes >= o.min_bytes, "--max-bytes must be at least --min-bytes");
  check(o.max_bytes <= kMostBytes, "--max-bytes must be at most " + std::to_string(kMostBytes));
  check(o.samples >= 0, "--samples must be at least 1, or 0 to let the benchmark choose");
  check(o.warm_up >= 0, "--warm-up must be at least 0");
  if (parameters_of(o.model)) return;
  std::string known;
  for (const std::string& name : model_names()) known += (known.empty() ? "" : ", ") + name;
  throw UsageError("--model " + o.model + " is not known; known: " + known);
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  check(!arguments.empty(), "which benchmark? allreduce or gradients");
  o.benchmark = arguments.front();
  if (o.benchmark == "--help" || o.benchmark == "-h") {
    o.help = std::string(kUsage) + "'kolo bench NAME --help' lists the options of a benchmark.\n";
    return o;
  }
  check(o.benchmark == "allreduce" || o.benchmark == "gradients",
        "there is no benchmark '" + o.benchmark + "'; there are allreduce and gradients");
  po::options_description table("Options of " + o.benchmark);
  add_options(o.benchmark, o, table);
  try {
    po::variables_map values;
    const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
    po::store(po::command_line_parser(rest).options(table).positional({}).run(), values);
    if (values.count("help") > 0) {
      std::ostringstream text;
      text << kUsage << table;
      o.help = text.str();
      return o;
    }
    check(values.count("json") == 0 || !values["json"].as<std::string>().empty(),
          "--json needs a file");
    po::notify(values);
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  check_ranges(o);
  return o;
}

}  // namespace kolo::bench
