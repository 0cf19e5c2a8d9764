// A job that is to be killed: killed_job FOLDER STEPS. Each rank writes its process id to
// FOLDER/RANK (RANK as the launcher says), then works until it has done so many steps (after the
// first few there is FOLDER/RANK.works, too): large tensors, small ones in a bucket, gathers,
// broadcasts. When an operation fails it prints the error and exits with 4.
#include <ATen/ATen.h>
#include <kolo/error.h>
#include <kolo/init.h>
#include <kolo/operations.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

// Before MPI runs, so that a rank can be killed while that begins.
std::string rank_of_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    const char* rank = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no threads yet
    if (rank != nullptr) return rank;
  }
  return "0";
}

void write_process_id(const std::filesystem::path& folder, const std::string& ending) {
  const std::filesystem::path file = folder / (rank_of_launcher() + ending);
  const std::filesystem::path unfinished = file.string() + ".new";
  std::ofstream(unfinished) << getpid() << '\n';
  std::filesystem::rename(unfinished, file);
}

class Work {
 public:
  Work() {
    for (const std::int64_t size : {1, 1 << 14, 1 << 22}) large_.push_back(at::zeros({size}));
    for (int i = 0; i < 50; ++i) small_.push_back(at::zeros({256}));
  }

  void step() {
    std::vector<kolo::Handle> handles;
    for (std::size_t i = 0; i < small_.size(); ++i)
      handles.push_back(kolo::allreduce_async_(small_[i], "small" + std::to_string(i)));
    for (std::size_t i = 0; i < large_.size(); ++i)
      handles.push_back(kolo::allreduce_async_(large_[i], "large" + std::to_string(i)));
    handles.push_back(kolo::broadcast_async_(broadcast_, 0, "broadcast"));
    handles.push_back(kolo::allgather_async(gathered_, "gathered"));
    for (kolo::Handle& handle : handles) handle.wait();
    kolo::allreduce_(small_.front(), "synchronous");
  }

 private:
  const at::Tensor broadcast_ = at::zeros({1 << 20});
  const at::Tensor gathered_ = at::zeros({1 << 18});
  std::vector<at::Tensor> large_;
  std::vector<at::Tensor> small_;
};

int run(const std::string& folder, int steps) {
  write_process_id(folder, "");
  try {
    kolo::init();
    Work work;
    for (int i = 0; i < steps; ++i) {
      work.step();
      if (i == 4) write_process_id(folder, ".works");
    }
    kolo::shutdown();
  } catch (const kolo::Error& error) {
    std::printf("survivor: %s\n", error.what());
    std::fflush(stdout);
    return 4;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return argc == 3 ? run(argv[1], std::atoi(argv[2])) : 2;
}
