// Any flight records give a diagnosis, or a DataError.
#include <string>

#include "fuzz_json.hpp"
#include "kolo/error.h"
#include "tools/trace/diagnose.hpp"

namespace kolo::tools {
namespace {

std::string record(JsonMaker& json, int rank) {
  std::string text = JsonMaker::object(
      json.field("kolo_flight", "1") + json.field("rank", std::to_string(rank)) +
      json.field("size", "3") + json.field("host", json.text()) + json.field("process", "5") +
      json.field("job", "7") + json.field("reason", json.text()) +
      json.field("step", json.number()) + json.field("frozen_ns", json.number()) +
      json.field("now_ns", json.number()) + json.field("unix_ns", json.number()));
  static constexpr std::array<const char*, 5> kStates = {"submitted", "agreed", "started", "done",
                                                         "failed"};
  static constexpr std::array<const char*, 2> kOperations = {"allreduce", "broadcast"};
  for (int i = 0; i < 15 && json.more(); ++i) {
    text += "\n";
    text +=
        json.chance()
            ? json.raw()
            : JsonMaker::object(
                  json.field("name", json.text()) +
                  json.field("operation", json.one_of(kOperations)) +
                  json.field("state", json.one_of(kStates)) + json.field("wanted", json.number()) +
                  json.field("step", json.number()) + json.field("bytes", json.number()) +
                  json.field("process_set", json.number()) + json.field("bucket", json.number()) +
                  json.field("members", json.number()) + json.field("sequence", json.number()) +
                  json.field("submitted_ns", json.number()) +
                  json.field("started_ns", json.number()) + json.field("ended_ns", json.number()));
  }
  return text;
}

}  // namespace
}  // namespace kolo::tools

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kolo::tools::JsonMaker json(data, size);
  kolo::tools::Flights flights;
  for (int rank = 0; rank < 3; ++rank) {
    try {
      kolo::tools::Flight flight =
          kolo::tools::parse_flight(kolo::tools::record(json, rank), "fuzz");
      flights[flight.rank] = std::move(flight);
    } catch (const kolo::DataError&) {
    }
  }
  kolo::tools::diagnose(flights);
  return 0;
}
