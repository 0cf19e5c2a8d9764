// Environment variables by which kolo run configures loader processes and tells ranks where they
// listen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kolo {

// Set in a loader process: a LoaderPlace.
inline constexpr const char* kLoaderVariable = "KOLO_LOADER";
// Set in ranks: the addresses of the loader processes (delivery::Address), separated by blanks.
inline constexpr const char* kLoadersVariable = "KOLO_LOADERS";
// Set in both: the token that a rank presents to a loader process.
inline constexpr const char* kLoaderTokenVariable = "KOLO_LOADER_TOKEN";

// A loader process's place among the others, and what kolo run asks of it. Text form: "KEY=VALUE"
// for each member, separated by blanks; the spool comes last and may contain blanks.
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

// Returns this process's place, if it is a loader process. Throws InvalidArgumentError for a
// variable that cannot be read.
std::optional<LoaderPlace> own_loader_place();

}  // namespace kolo
