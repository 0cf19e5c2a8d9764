// What kolo run tells a loader process, and training ranks of their loaders, by the environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kolo {

// In a loader process this one is set; its value is a LoaderPlace.
inline constexpr const char* kLoaderVariable = "KOLO_LOADER";
// In training ranks: where the loaders listen, separated by blanks (delivery::Address).
inline constexpr const char* kLoadersVariable = "KOLO_LOADERS";
// In both: what a training rank shows to a loader, so that no other process gets data.
inline constexpr const char* kLoaderTokenVariable = "KOLO_LOADER_TOKEN";

// Where a loader process stands, and what kolo run wants of it. Text form: "KEY=VALUE" for each
// member, separated by blanks; the spool comes last and may hold blanks.
struct LoaderPlace {
  int number = 0;                  // of this loader process, below count
  int count = 1;                   // loader processes
  int ranks = 1;                   // training ranks
  std::uint64_t units = 0;         // samples that all loader processes prepare of each loader
  std::uint64_t memory_bytes = 0;  // for what this one has prepared
  int ready = -1;                  // descriptor: gets a byte when everything is prepared
  std::vector<int> listeners;      // sockets that training ranks connect to
  std::string spool;               // folder; empty: none
  bool operator==(const LoaderPlace&) const = default;
};
std::string to_text(const LoaderPlace& place);
// std::nullopt: malformed text.
std::optional<LoaderPlace> to_loader_place(const std::string& text);

// This process's, if it is a loader process. Throws InvalidArgumentError for a variable that cannot
// be read.
std::optional<LoaderPlace> own_loader_place();

}  // namespace kolo
