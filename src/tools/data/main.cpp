// kolo-data: the program that `kolo data` runs. It needs no LibTorch.
#include <boost/program_options.hpp>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "data/csv.hpp"
#include "hdf5/library.hpp"
#include "kolo/error.h"
#include "tools/command.hpp"
#include "tools/data/array_writer.hpp"
#include "tools/data/input.hpp"
#include "tools/data/inspect.hpp"

namespace po = boost::program_options;

namespace {

constexpr const char* kUsage =
    "Usage: kolo data info PATH... [--delimiter C]\n"
    "       kolo data verify PATH... [--delimiter C]    exit code 1 if something cannot be read\n"
    "                                                or is damaged\n"
    "       kolo data convert SAMPLES [TARGETS] TO.h5 [OPTION...]\n\n"
    "A path is a file (HDF5, NumPy's .npy and .npz, IDX, or a table in text such as CSV; IDX\n"
    "and tables may be gzip) or a folder of .jpg and .png images with a subfolder for each "
    "class.\n\n"
    "convert writes an HDF5 file with the arrays 'samples' and 'targets', as\n"
    "kolo::data::HDF5Dataset reads them, and a checksum of each, which verify compares.\n"
    "  --gzip LEVEL       compress, with a level from 1 to 9\n"
    "  --chunk ROWS       store chunks of ROWS samples (default with --gzip: about 8 KiB,\n"
    "                     for shuffled reads; without --gzip: one block, no chunks)\n"
    "  --samples NAME     the array of samples in an HDF5 or .npz file (default: samples)\n"
    "  --targets NAME     that of the targets (default: targets, if there is one), or the\n"
    "                     column of a table\n"
    "  --delimiter C      what separates the cells of a table (default: a comma); tab for a tab\n";

using kolo::tools::UsageError;

struct Words {
  std::string command;
  std::vector<std::string> paths;
  kolo::tools::Choice choice;
  std::string delimiter = ",";
  int gzip = 0;
  std::int64_t chunk = 0;
  bool help = false;
  bool has_options = false;  // options that only convert takes
};

Words parse(int argc, char** argv) {
  Words words;
  po::options_description all("Options");
  auto add = all.add_options();
  add("help,h", po::bool_switch(&words.help));
  add("gzip", po::value(&words.gzip));
  add("chunk", po::value(&words.chunk));
  add("samples", po::value(&words.choice.samples));
  add("targets", po::value(&words.choice.targets));
  add("delimiter", po::value(&words.delimiter));
  add("command", po::value(&words.command));
  add("path", po::value(&words.paths));
  po::positional_options_description positions;
  positions.add("command", 1).add("path", -1);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional(positions).run(), values);
  po::notify(values);
  for (const char* option : {"gzip", "chunk", "samples", "targets"})
    words.has_options = words.has_options || values.count(option) > 0;
  if (values.count("gzip") > 0 && (words.gzip < 1 || words.gzip > 9))
    throw UsageError("--gzip is " + std::to_string(words.gzip) + ", not a level from 1 to 9");
  if (values.count("chunk") > 0 && words.chunk < 1)
    throw UsageError("--chunk is " + std::to_string(words.chunk) + ", not 1 or more");
  if (words.delimiter == "tab") words.delimiter = "\t";
  if (words.delimiter.size() != 1 || !kolo::data::is_delimiter(words.delimiter[0])) {
    throw UsageError("--delimiter is '" + words.delimiter +
                     "', not tab or a single character that no number contains");
  }
  words.choice.delimiter = words.delimiter[0];
  return words;
}

// Refuses to replace other files: if the last path is forgotten, the file with the targets would be
// lost.
void require_replaceable(const std::string& path) {
  std::error_code unreadable;  // writing then says why
  if (!std::filesystem::exists(path, unreadable)) return;
  if (!std::filesystem::is_directory(path, unreadable) &&
      kolo::tools::data_format_of(path) == kolo::tools::DataFormat::kHdf5) {
    return;
  }
  throw UsageError(path +
                   " exists and is not an HDF5 file; convert replaces only HDF5 files. Give "
                   "another path as the last one");
}

int convert(const Words& words) {
  using namespace kolo::tools;
  const bool has_targets_file = words.paths.size() == 3;
  if (words.paths.size() != 2 && !has_targets_file)
    throw UsageError("'convert' takes SAMPLES, TARGETS if they have a file, and TO.h5");
  const std::string& to = words.paths.back();
  require_replaceable(to);
  Samples opened = open_samples(words.paths[0], words.choice);
  if (has_targets_file) {
    if (opened.targets != nullptr)
      throw UsageError(words.paths[0] + " has targets already; leave out " + words.paths[1]);
    opened.targets = open_array(words.paths[1]);
  }
  const std::size_t samples = opened.samples->form().rows();
  if (opened.targets != nullptr && opened.targets->form().rows() != samples) {
    throw kolo::DataError(words.paths[has_targets_file ? 1 : 0] + ": has " +
                          std::to_string(opened.targets->form().rows()) + " targets for " +
                          std::to_string(samples) + " samples; give arrays of the same length");
  }
  const Storage storage{words.gzip, static_cast<std::size_t>(words.chunk)};
  ArrayWriter writer(to);
  for (const auto& [name, text] : opened.notes) writer.note(name, text);
  writer.add("samples", *opened.samples, storage);
  if (opened.targets != nullptr) writer.add("targets", *opened.targets, {});
  writer.finish();
  return data_info(to, {}, std::cout);
}

int run(const Words& words) {
  using namespace kolo::tools;
  if (words.command == "convert") return convert(words);
  const bool is_info = words.command == "info";
  if (!is_info && words.command != "verify") {
    throw UsageError(words.command.empty() ? "no command given"
                                           : "unknown command '" + words.command + "'");
  }
  if (words.has_options)
    throw UsageError("'" + words.command + "' takes no option but --delimiter");
  if (words.paths.empty()) throw UsageError("'" + words.command + "' needs a path");
  int code = 0;
  for (const std::string& path : words.paths) {
    code = std::max(code, is_info ? data_info(path, words.choice, std::cout)
                                  : data_verify(path, words.choice, std::cout));
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // At exit, HDF5 1.10 would crash over a file that it could not write, which was reported already.
  H5dont_atexit();
  return kolo::tools::run_command("kolo data", kUsage, [&] {
    const Words words = parse(argc, argv);
    if (!words.help) return run(words);
    std::cout << kUsage;
    return 0;
  });
}
