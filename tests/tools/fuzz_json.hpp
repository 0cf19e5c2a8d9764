// JSON that is nearly right: bytes choose keys' values, most of them what a reader expects.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <string>

namespace kolo::tools {

class JsonMaker {
 public:
  JsonMaker(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

  bool more() { return bytes_.remaining_bytes() > 0; }
  bool chance() { return bytes_.ConsumeIntegralInRange<int>(0, 15) == 15; }

  std::string number() {
    static constexpr std::array<const char*, 10> kOdd = {"-1",
                                                         "1e300",
                                                         "null",
                                                         "\"1\"",
                                                         "9223372036854775807",
                                                         "18446744073709551615",
                                                         "-9223372036854775808",
                                                         "2305843009213693952",
                                                         "0.5",
                                                         "[]"};
    if (chance()) return bytes_.PickValueInArray(kOdd);
    return std::to_string(bytes_.ConsumeIntegralInRange<int>(0, chance() ? 1 << 30 : 12));
  }
  std::string text() {
    static constexpr std::array<const char*, 4> kNames = {"a", "b", "bucket 1", "<&\\u0000"};
    return quoted(bytes_.PickValueInArray(kNames));
  }
  template <std::size_t Count>
  std::string one_of(const std::array<const char*, Count>& words) {
    return chance() ? number() : quoted(bytes_.PickValueInArray(words));
  }
  // A field that may be missing.
  std::string field(const char* key, const std::string& value) {
    return chance() ? "" : quoted(key) + ":" + value + ",";
  }
  std::string raw() { return bytes_.ConsumeRandomLengthString(60); }

  // Closes what fields have opened.
  static std::string object(std::string fields) {
    if (!fields.empty()) fields.pop_back();
    return "{" + fields + "}";
  }

 private:
  static std::string quoted(const std::string& text) { return "\"" + text + "\""; }

  FuzzedDataProvider bytes_;
};

}  // namespace kolo::tools
