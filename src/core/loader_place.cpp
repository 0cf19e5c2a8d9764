#include "core/loader_place.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "kolo/error.h"

namespace kolo {
namespace {

// Removes "KEY=VALUE" and the blank after it from the front of a text.
class Words {
 public:
  explicit Words(const std::string& text) : rest_(text) {}

  // Empty if the next word has another key.
  std::string value(const std::string& key) {
    const std::string start = key + "=";
    if (rest_.compare(0, start.size(), start) != 0) return "";
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    std::string value = rest_.substr(start.size(), end - start.size());
    rest_.erase(0, std::min(end + 1, rest_.size()));
    return value;
  }

  template <typename Number>
  void read(const std::string& key, Number least, Number& number) {
    const std::string text = value(key);
    is_ok_ = is_ok_ && parse(text, number) && number >= least;
  }

  void read(const std::string& key, std::vector<int>& numbers) {
    const std::string text = value(key);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      int number = 0;
      is_ok_ = is_ok_ && parse(text.substr(begin, end - begin), number) && number >= 0;
      numbers.push_back(number);
      begin = end + 1;
    }
  }

  bool is_ok() const { return is_ok_; }
  const std::string& rest() const { return rest_; }

 private:
  template <typename Number>
  static bool parse(const std::string& text, Number& number) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end && !text.empty();
  }

  std::string rest_;
  bool is_ok_ = true;
};

}  // namespace

std::string to_text(const LoaderPlace& place) {
  std::string listeners;
  for (const int listener : place.listeners)
    listeners += (listeners.empty() ? "" : ",") + std::to_string(listener);
  return "number=" + std::to_string(place.number) + " count=" + std::to_string(place.count) +
         " ranks=" + std::to_string(place.ranks) + " units=" + std::to_string(place.units) +
         " memory=" + std::to_string(place.memory_bytes) + " ready=" + std::to_string(place.ready) +
         " listen=" + listeners + " spool=" + place.spool;
}

std::optional<LoaderPlace> to_loader_place(const std::string& text) {
  Words words(text);
  LoaderPlace place;
  words.read("number", 0, place.number);
  words.read("count", 1, place.count);
  words.read("ranks", 1, place.ranks);
  words.read("units", std::uint64_t{0}, place.units);
  words.read("memory", std::uint64_t{0}, place.memory_bytes);
  words.read("ready", -1, place.ready);
  words.read("listen", place.listeners);
  const std::string start = "spool=";
  const std::string& rest = words.rest();
  if (!words.is_ok() || place.number >= place.count || rest.compare(0, start.size(), start) != 0)
    return std::nullopt;
  place.spool = rest.substr(start.size());
  return place;
}

std::optional<LoaderPlace> own_loader_place() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): programs set no variables of kolo's
  const char* const text = std::getenv(kLoaderVariable);
  if (text == nullptr) return std::nullopt;
  std::optional<LoaderPlace> place = to_loader_place(text);
  if (!place) {
    throw InvalidArgumentError(std::string("the environment variable ") + kLoaderVariable + "='" +
                               text + "' was not set by kolo run; unset it");
  }
  return place;
}

}  // namespace kolo
