// A profiler that only writes down the ranges of domain "kolo", a line each, to the file that
// KOLO_NVTX_LOG names. The program loads it if NVTX_INJECTION64_PATH names it.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace {

int kolo_domain;
nvtxRangeId_t ranges = 0;
std::mutex mutex;

void write(const char* what, nvtxRangeId_t range, const nvtxEventAttributes_t* attributes) {
  static std::FILE* const log = std::fopen(std::getenv("KOLO_NVTX_LOG"), "we");
  if (log == nullptr) return;
  std::fprintf(log, "%s %llu %s\n", what, static_cast<unsigned long long>(range),
               attributes == nullptr ? "" : attributes->message.ascii);
  std::fflush(log);
}

nvtxDomainHandle_t create(const char* name) {
  return std::strcmp(name, "kolo") == 0 ? reinterpret_cast<nvtxDomainHandle_t>(&kolo_domain)
                                        : nullptr;
}
nvtxRangeId_t start(nvtxDomainHandle_t /*domain*/, const nvtxEventAttributes_t* attributes) {
  const std::lock_guard lock(mutex);
  write("start", ++ranges, attributes);
  return ranges;
}
void end(nvtxDomainHandle_t /*domain*/, nvtxRangeId_t range) {
  const std::lock_guard lock(mutex);
  write("end", range, nullptr);
}
int push(nvtxDomainHandle_t /*domain*/, const nvtxEventAttributes_t* attributes) {
  const std::lock_guard lock(mutex);
  write("push", 0, attributes);
  return 0;
}
int pop(nvtxDomainHandle_t /*domain*/) {
  const std::lock_guard lock(mutex);
  write("pop", 0, nullptr);
  return 0;
}

template <typename Function>
void set(NvtxFunctionTable table, NvtxCallbackIdCore2 which, Function* function) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
    return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, create);
  set(table, NVTX_CBID_CORE2_DomainRangeStartEx, start);
  set(table, NVTX_CBID_CORE2_DomainRangeEnd, end);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
