// A simulation that trains a network while it runs: half of the ranks solve the heat equation, and
// the others train a network to predict the solver's next steps.
//   kolo run -np 4 build/release/bin/in_situ --plot in_situ.svg
#include <kolo/kolo.h>
#include <kolo/mpi.h>
#include <torch/torch.h>

#include <boost/program_options.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/plot.hpp"
#include "heat.hpp"

namespace {

namespace po = boost::program_options;
using in_situ::kSteps;

constexpr int kTag = 2;

struct Options {
  std::int64_t size = 64;     // cells along a side
  std::int64_t rounds = 100;  // of kSteps steps of the solver
  std::int64_t learn = 4;     // steps of the optimizer in a round
  double lr = 3e-3;
  std::string plot;  // an SVG file
  std::uint64_t seed = 1;
};

void check(int code) {
  if (code != MPI_SUCCESS) throw std::runtime_error("MPI failed with code " + std::to_string(code));
}

// What kSteps steps of the solver do to the middle of its rows: [N, 1, H + 2 kSteps, W] to
// [N, 1, H, W]. Two convolutions of 5 by 5 see as far as four steps reach.
struct SurrogateImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& u) {
    const torch::Tensor wide = torch::nn::functional::pad(
        u, torch::nn::functional::PadFuncOptions({kSteps, kSteps, 0, 0}).mode(torch::kCircular));
    const torch::Tensor middle = u.slice(2, kSteps, u.size(2) - kSteps);
    return middle + second(torch::tanh(first(wide)));
  }
  torch::nn::Conv2d first =
      register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 5)));
  torch::nn::Conv2d second =
      register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 1, 5)));
};
TORCH_MODULE(Surrogate);

// A solver's rank: computes, and gives its trainer the rows before and after each round.
void solve(const Options& options, MPI_Comm solvers, int trainer) {
  in_situ::Heat heat(solvers, options.size, options.seed);
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    if (round % 5 == 0) heat.heat_up();
    heat.advance();
    // Two tensors in a row; MPI_Send copies or waits, so they may change afterwards.
    for (const torch::Tensor& rows : {heat.before(), heat.now()}) {
      const torch::Tensor sent = rows.contiguous();
      check(MPI_Send(sent.const_data_ptr<float>(), static_cast<int>(sent.numel()), MPI_FLOAT,
                     trainer, kTag, MPI_COMM_WORLD));
    }
  }
}

torch::Tensor received(std::int64_t rows, std::int64_t columns, int solver) {
  torch::Tensor tensor = torch::empty({1, 1, rows, columns});
  check(MPI_Recv(tensor.mutable_data_ptr<float>(), static_cast<int>(tensor.numel()), MPI_FLOAT,
                 solver, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return tensor;
}

// A trainer's rank. The surrogate's error is measured with rows that it has not seen yet: its
// distance from the truth over the distance that the solver has gone.
std::vector<example::Point> learn(const Options& options, int solver) {
  torch::manual_seed(options.seed);
  Surrogate surrogate;
  kolo::broadcast_parameters(surrogate);
  kolo::DistributedOptimizer<torch::optim::Adam> optimizer(surrogate,
                                                           torch::optim::AdamOptions(options.lr));
  const std::int64_t rows = options.size / kolo::size();
  std::vector<example::Point> errors;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    const torch::Tensor before = received(rows + 2 * kSteps, options.size, solver);
    const torch::Tensor after = received(rows, options.size, solver);
    const torch::Tensor change = after - before.slice(2, kSteps, kSteps + rows);
    for (std::int64_t step = 0; step < options.learn; ++step) {
      optimizer.zero_grad();
      const torch::Tensor loss = torch::mse_loss(surrogate(before), after);
      if (step == 0) {
        const double distance = kolo::average(loss.item<double>());
        const double gone = kolo::average(change.pow(2).mean().item<double>());
        errors.push_back({static_cast<double>((round + 1) * kSteps), std::sqrt(distance / gone)});
        if (!std::isfinite(errors.back().y))
          throw std::runtime_error("the error of the surrogate is not finite; try a smaller --lr");
      }
      loss.backward();
      optimizer.step();
    }
    if (kolo::rank() != 0 || (round + 1) % 20 != 0) continue;
    std::printf("Step %.0f: error %.4f\n", errors.back().x, errors.back().y);
    std::fflush(stdout);
  }
  kolo::check_in_sync(surrogate);
  return errors;
}

// The first half of the ranks solves, the second half learns; kolo knows the second alone.
void run(const Options& options) {
  int rank = 0;
  int ranks = 1;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  if (ranks % 2 != 0) {
    throw std::runtime_error("this is a job of " + std::to_string(ranks) +
                             " ranks: start an even number, half of which solve and half learn");
  }
  const int half = ranks / 2;
  if (options.size % half != 0 || options.size / half < kSteps) {
    throw std::runtime_error(std::to_string(options.size) + " rows cannot be shared by " +
                             std::to_string(half) + " solvers, each with at least " +
                             std::to_string(kSteps) + " rows");
  }
  const bool solves = rank < half;
  MPI_Comm own = MPI_COMM_NULL;
  check(MPI_Comm_split(MPI_COMM_WORLD, solves ? 0 : 1, rank, &own));
  if (solves) {
    solve(options, own, rank + half);
  } else {
    kolo::init(own);
    const std::vector<example::Point> errors = learn(options, rank - half);
    if (kolo::rank() == 0 && !options.plot.empty()) {
      example::plot(options.plot, {{"surrogate", errors}}, example::Axis::kLinear,
                    "steps of the solver", "error of the surrogate");
      std::printf("Plot: %s\n", options.plot.c_str());
    }
    kolo::shutdown();
  }
  check(MPI_Comm_free(&own));
}

// Whether there is something to do.
bool parse(int argc, char** argv, Options& o) {
  po::options_description all("in_situ: a simulation that trains a network while it runs");
  auto add = all.add_options();
  add("help", "show this and end");
  add("size", po::value(&o.size)->default_value(o.size), "cells along a side of the square");
  add("rounds", po::value(&o.rounds)->default_value(o.rounds),
      "rounds of four steps of the solver");
  add("learn", po::value(&o.learn)->default_value(o.learn), "steps of the optimizer in a round");
  add("lr", po::value(&o.lr)->default_value(o.lr), "learning rate of Adam");
  add("plot", po::value(&o.plot), "SVG file for the error of the surrogate");
  add("seed", po::value(&o.seed)->default_value(o.seed), "of the weights and the heated spots");
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional({}).run(), values);
  if (values.count("help") > 0) {
    std::cout << all;
    return false;
  }
  po::notify(values);
  if (o.rounds < 1 || o.learn < 1) throw po::error("--rounds and --learn must be at least 1");
  constexpr std::int64_t kMostCells = 16384;  // MPI counts what is sent in an int
  if (o.size < kSteps || o.size > kMostCells) throw po::error("--size must be from 4 to 16384");
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (!parse(argc, argv, options)) return 0;
    // kolo communicates in a thread of its own.
    int provided = 0;
    check(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    run(options);
    check(MPI_Finalize());
    return 0;
  } catch (const po::error& error) {
    std::cerr << "in_situ: " << error.what() << "; see --help\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "in_situ: " << error.what() << std::endl;
    // The ranks on the other side may wait for this one in MPI.
    int is_started = 0;
    MPI_Initialized(&is_started);
    if (is_started != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
}
