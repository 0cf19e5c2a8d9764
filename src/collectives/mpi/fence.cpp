#include "collectives/mpi/fence.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "core/log.hpp"

namespace kolo {
namespace {

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
constexpr bool kIsOpenMpi5 = true;
#else
constexpr bool kIsOpenMpi5 = false;
#endif

// Declarations of the PMIx standard (5.1), whose header may be missing. Open MPI 5 has loaded the
// library.
using FenceCallback = void (*)(int status, void* data);
struct Pmix {
  int (*fence)(const void* processes, std::size_t process_count, const void* infos,
               std::size_t info_count, FenceCallback callback, void* data);
  int (*load_info)(void* info, const char* key, const void* value, std::uint16_t type);
};
constexpr int kPmixSuccess = 0;
constexpr int kPmixOperationSucceeded = -157;  // ended at once, without a callback
constexpr int kPmixTimeout = -24;
constexpr std::uint16_t kPmixBool = 1;

// Ranks that start later than others by more than this are rare.
constexpr std::chrono::minutes kLongestWait(5);

template <typename Function>
bool find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) {
    log::warning(std::string(name) +
                 " was not found: ranks that are still in MPI_Init may crash (docs/slurm.md)");
  }
  return function != nullptr;
}

// Global, because PMIx's thread may call end_fence() after the wait has ended.
std::atomic<bool> has_ended{false};
std::atomic<int> end_status{kPmixSuccess};

void end_fence(int status, void* /*data*/) {
  end_status = status;
  has_ended = true;
}

// Advances messages that MPI_Init itself has sent, because another rank may still wait for them.
void progress_mpi() {
  int is_there = 0;
  const int code =
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) log::warning("MPI_Iprobe failed while waiting for PMIx_Fence_nb");
}

// Runs a PMIx fence that collects the ranks' data, although the ranks have put no data. With Slurm
// 22.05, a fence is a barrier between nodes only if it collects data, and the fence of MPI_Init
// collects none.
int fence() {
  Pmix pmix{};
  if (!find("PMIx_Fence_nb", pmix.fence) || !find("PMIx_Info_load", pmix.load_info))
    return kPmixSuccess;
  // A pmix_info_t, which has less than 600 bytes. PMIx may read it until the fence ends.
  alignas(std::max_align_t) static std::byte info[4096] = {};
  constexpr bool kYes = true;
  int code = pmix.load_info(info, "pmix.collect", &kYes, kPmixBool);
  if (code != kPmixSuccess) return code;
  code = pmix.fence(nullptr, 0, info, 1, end_fence, nullptr);  // of all processes
  if (code == kPmixOperationSucceeded) return kPmixSuccess;
  if (code != kPmixSuccess) return code;
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  while (!has_ended) {
    if (std::chrono::steady_clock::now() >= deadline) return kPmixTimeout;
    progress_mpi();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return end_status;
}

}  // namespace

void await_all_in_mpi() {
  if (!kIsOpenMpi5) return;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): documented for init(), before threads of the program
  const char* const job = std::getenv("PMIX_NAMESPACE");
  if (job == nullptr || std::string_view(job).rfind("slurm.", 0) != 0) return;
  if (const int code = fence(); code != kPmixSuccess) {
    log::warning("PMIx_Fence_nb failed with " + std::to_string(code) +
                 ": ranks that are still in MPI_Init may crash (docs/slurm.md)");
  }
}

}  // namespace kolo
