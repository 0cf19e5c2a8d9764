#include "timeline/nvtx.hpp"

#include <nvtx3/nvToolsExt.h>

namespace kolo::timeline::nvtx {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kolo = nvtxDomainCreateA("kolo");
  return kolo;
}

nvtxEventAttributes_t called(const char* text) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text;
  return attributes;
}

}  // namespace

bool on() {
  return domain() != nullptr;
}

Range begin(const char* text) {
  const nvtxEventAttributes_t attributes = called(text);
  return nvtxDomainRangeStartEx(domain(), &attributes);
}

void end(Range range) {
  nvtxDomainRangeEnd(domain(), range);
}

Scope::Scope(const char* text) {
  if (!on()) return;
  const nvtxEventAttributes_t attributes = called(text);
  nvtxDomainRangePushEx(domain(), &attributes);
}

Scope::~Scope() {
  if (on()) nvtxDomainRangePop(domain());
}

}  // namespace kolo::timeline::nvtx
