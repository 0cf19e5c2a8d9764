#include "benchmarks/horovod.hpp"

#include "benchmarks/horovod_script.hpp"

namespace kolo::bench {
namespace {

constexpr double kImportSeconds = 60;
constexpr const char* kProbe =
    "import sys\n"
    "sys.stdin.readline()\n"
    "try:\n"
    "  import horovod.torch\n"
    "  print('there')\n"
    "except Exception as error:\n"
    "  print('not', type(error).__name__, str(error).partition('\\n')[0])\n";

}  // namespace

std::string why_no_horovod(Group& group, const std::string& python, bool& possible) {
  std::string why;
  if (group.rank() == 0) {
    try {
      Child(python, {python, "-c", kProbe}, kImportSeconds).ask("look", "there");
    } catch (const std::exception& error) {
      why = error.what();
    }
  }
  double missing = why.empty() ? 0 : 1;
  group.largest(&missing, 1);
  possible = missing == 0;
  return why;
}

std::unique_ptr<Job> start_horovod(Group& group, const std::string& python, WhileWaiting what,
                                   int threads) {
  Job::Spec spec;
  spec.name = "horovod";
  spec.settings = {"OMP_NUM_THREADS=" + std::to_string(threads)};
  if (what == WhileWaiting::kYields) {
    spec.name = "horovod-yield";
    spec.settings.emplace_back("OMPI_MCA_mpi_yield_when_idle=1");
  }
  spec.program = {python, "-u", "-c", kHorovodScript};
  spec.bound = false;
  return std::make_unique<Job>(group, spec);
}

std::string horovod_allreduce(const Parameter& tensor) {
  return "allreduce " + std::to_string(tensor.elements());
}

std::string horovod_gradients(const std::vector<Parameter>& parameters, Order order, Names names) {
  return "reduction " + shapes_of(parameters) +
         (order == Order::kShuffled ? " shuffled" : " backward") +
         (names == Names::kNew ? " new" : " known");
}

std::string horovod_backward(const std::vector<Parameter>& parameters) {
  return "backward " + shapes_of(parameters);
}

}  // namespace kolo::bench
