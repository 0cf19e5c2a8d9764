// Trains the MNIST network on all ranks of a job.
//   kolo run -np 2 build/release/bin/mnist --epochs 3
#include <boost/program_options/errors.hpp>
#include <exception>
#include <iostream>

#include "training.hpp"

namespace {

int train(const mnist::Options& options) {
  kolo::init();
  if (options.threads > 0) torch::set_num_threads(options.threads);
  mnist::Training training(options);
  if (!training.run()) return kolo::kRequeueExitCode;
  training.save();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::optional<mnist::Options> options = mnist::parse(argc, argv);
    const int code = options ? train(*options) : 0;
    kolo::shutdown();
    return code;
  } catch (const boost::program_options::error& error) {
    std::cerr << "mnist: " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "mnist: " << error.what() << "\n";
    return 1;
  }
}
