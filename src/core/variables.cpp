#include "core/variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "core/config.hpp"

namespace kolo {
namespace {

constexpr std::string_view kOwn = "KOLO_";
constexpr std::string_view kHorovods = "HOROVOD_";

// Variables that are not settings of init(): those that kolo run sets for ranks, that the kolo
// command and the batch scripts read, that the modulefile sets, and that serve building and
// testing.
constexpr std::string_view kOthers[] = {
    "KOLO_TERMINAL", "KOLO_RESTART_COUNT", "KOLO_MPIRUN",       "KOLO_SLURM",
    "KOLO_MODULES",  "KOLO_LAUNCHER",      "KOLO_SRUN_MPI",     "KOLO_MAX_RESTARTS",
    "KOLO_DOCTOR",   "KOLO_INTERACTIVE",   "KOLO_ROOT",         "KOLO_TORCH",
    "KOLO_MPI",      "KOLO_WERROR",        "KOLO_MNIST_MIRROR", "KOLO_RANK_PROCESS",
    "KOLO_HOSTS",    "KOLO_PYTHON",        "KOLO_CUDA",         "KOLO_LOADER",
    "KOLO_LOADERS",  "KOLO_LOADER_TOKEN"};

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// Returns how many letters must be inserted, removed or replaced to turn one text into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// Whether `words` begin `of`, as "STALL_CHECK" begins "STALL_CHECK_TIME_SECONDS". One word alone
// says too little.
bool are_first_words(std::string_view words, std::string_view of) {
  return words.find('_') != std::string_view::npos && words.size() < of.size() &&
         begins_with(of, words) && of[words.size()] == '_';
}

// Returns the known name that is most similar to another one, if any is. All names come without
// their prefixes.
std::string_view most_like(std::string_view name, const std::vector<std::string_view>& known,
                           std::size_t most_letters) {
  std::string_view best;
  std::size_t least = 0;
  for (const std::string_view one : known) {
    const std::size_t letters = distance(name, one);
    if (letters > most_letters && !are_first_words(name, one) && !are_first_words(one, name))
      continue;
    if (best.empty() || letters < least) {
      best = one;
      least = letters;
    }
  }
  return best;
}

bool is_one_of(std::string_view name, const std::vector<std::string_view>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<UnknownVariable> unknown_variables(const std::vector<std::string>& names) {
  std::vector<std::string_view> own;
  std::vector<std::string_view> horovods;
  for (const Setting& setting : settings()) {
    own.push_back(std::string_view(setting.name).substr(kOwn.size()));
    if (!setting.horovod_name.empty())
      horovods.push_back(std::string_view(setting.horovod_name).substr(kHorovods.size()));
  }
  for (const std::string_view other : kOthers) own.push_back(other.substr(kOwn.size()));
  std::vector<UnknownVariable> unknown;
  for (const std::string& name : names) {
    if (begins_with(name, kOwn) && !begins_with(name, "KOLO_TEST_")) {
      const std::string_view rest = std::string_view(name).substr(kOwn.size());
      if (is_one_of(rest, own)) continue;
      const auto meant = most_like(rest, own, std::max<std::size_t>(1, rest.size() / 4));
      unknown.push_back({name, meant.empty() ? "" : std::string(kOwn).append(meant)});
    } else if (begins_with(name, kHorovods)) {
      const std::string_view rest = std::string_view(name).substr(kHorovods.size());
      if (is_one_of(rest, horovods)) continue;
      const auto meant = most_like(rest, horovods, 2);
      if (!meant.empty()) unknown.push_back({name, std::string(kHorovods).append(meant)});
    }
  }
  return unknown;
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace kolo
