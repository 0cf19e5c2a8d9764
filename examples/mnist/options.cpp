#include "options.hpp"

#include <boost/program_options.hpp>
#include <iostream>

namespace po = boost::program_options;

namespace mnist {
namespace {

template <typename Number>
void at_least(const po::variables_map& values, const char* name, Number least) {
  if (values[name].as<Number>() < least) {
    throw po::error(std::string("--") + name + " must be at least " + std::to_string(least));
  }
}

}  // namespace

std::optional<Options> parse(int argc, char** argv) {
  Options o;
  po::options_description all("mnist: trains the MNIST network on all ranks of the job");
  auto add = all.add_options();
  add("help", "show this and end");
  add("data", po::value(&o.data)->default_value(KOLO_DEFAULT_DATA),
      "folder with the four IDX files, plain or gzip");
  add("epochs", po::value(&o.epochs)->default_value(o.epochs), "1 to 9 in the original");
  add("batch-size", po::value(&o.batch_size)->default_value(o.batch_size),
      "images a rank and step");
  add("test-batch-size", po::value(&o.test_batch_size)->default_value(o.test_batch_size),
      "images a rank at once in the test");
  add("lr", po::value(&o.lr)->default_value(o.lr), "learning rate of Adadelta");
  add("gamma", po::value(&o.gamma)->default_value(o.gamma),
      "the learning rate is multiplied by it after each epoch");
  add("seed", po::value(&o.seed)->default_value(o.seed), "of weights, dropout and shuffling");
  add("device", po::value(&o.device)->default_value(o.device), "cpu, or cuda: this rank's GPU");
  add("threads", po::value(&o.threads)->default_value(o.threads),
      "threads a rank computes with; 0: automatic");
  add("log-interval", po::value(&o.log_interval)->default_value(o.log_interval),
      "batches between lines");
  add("out", po::value(&o.out)->default_value(o.out), "where rank 0 saves the weights");
  add("metrics", po::value(&o.metrics),
      "write loss, accuracy and images/s by rank to this CSV file");
  add("checkpoint", po::value(&o.checkpoint),
      "save the whole state to this folder after each epoch, and on SIGTERM or SIGUSR1 at the end "
      "of the step; then the exit code is 75");
  add("resume", po::bool_switch(&o.resume), "go on from the newest checkpoint, if there is one");
  add("stop-after", po::value(&o.stop_after)->default_value(o.stop_after),
      "stop after so many epochs of this run, as on a signal (0: no)");
  add("progress", po::bool_switch(&o.progress), "show a progress line on standard error");

  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::cout << all;
    return std::nullopt;
  }
  po::notify(values);
  for (const char* name : {"epochs", "batch-size", "test-batch-size", "log-interval"}) {
    at_least<std::int64_t>(values, name, 1);
  }
  at_least(values, "threads", 0);
  at_least<std::int64_t>(values, "stop-after", 0);
  if (o.checkpoint.empty() && (o.resume || o.stop_after > 0)) {
    throw po::error("--resume and --stop-after need --checkpoint DIR");
  }
  if (o.device != "cpu" && o.device != "cuda")
    throw po::error("--device " + o.device + ": it is cpu or cuda");
  return o;
}

}  // namespace mnist
