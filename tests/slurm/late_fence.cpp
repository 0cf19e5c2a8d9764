// Preloaded: the rank of LATE_RANK learns 0.3 s late that all ranks have come to a fence of PMIx,
// as on a node which Slurm tells last.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

extern "C" {

using Callback = void (*)(int status, void* data);

int PMIx_Fence_nb(const void* processes, std::size_t count, const void* infos,
                  std::size_t info_count, Callback callback, void* data) {
  using Fence = int (*)(const void*, std::size_t, const void*, std::size_t, Callback, void*);
  static const auto fence = reinterpret_cast<Fence>(dlsym(RTLD_NEXT, "PMIx_Fence_nb"));
  const char* const rank = std::getenv("PMIX_RANK");
  const char* const late = std::getenv("LATE_RANK");
  if (rank == nullptr || late == nullptr || std::strcmp(rank, late) != 0)
    return fence(processes, count, infos, info_count, callback, data);
  std::fprintf(stderr, "a fence ends late for rank %s\n", rank);
  struct Call {
    Callback callback;
    void* data;
  };
  const auto told = [](int status, void* given) {
    const auto* const call = static_cast<Call*>(given);
    std::thread([status, call] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      call->callback(status, call->data);
      delete call;
    }).detach();
  };
  return fence(processes, count, infos, info_count, told, new Call{callback, data});
}

}  // extern "C"
