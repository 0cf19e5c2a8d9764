// kolo-trace: the program that `kolo trace` runs.
#include <boost/program_options.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "kolo/error.h"
#include "tools/command.hpp"
#include "tools/trace/diagnose.hpp"
#include "tools/trace/merge.hpp"
#include "tools/trace/report.hpp"

namespace po = boost::program_options;

namespace {

constexpr const char* kUsage =
    "Usage: kolo trace merge FOLDER [-o FILE]\n"
    "       kolo trace report FOLDER [-o FILE] [--bandwidth FILE]\n"
    "       kolo trace diagnose FOLDER         exit code 1 if it finds a problem\n\n"
    "merge puts the timelines of all ranks (kolo run --timeline FOLDER) into one file, on rank "
    "0's\n"
    "clock, for https://ui.perfetto.dev or chrome://tracing (default: FOLDER/all.json; -: "
    "standard\n"
    "output).\n\n"
    "report writes a page (default: FOLDER/report.html) that shows where the time of training "
    "steps\n"
    "goes, which ranks and tensors are late, and what to change. With --bandwidth it compares "
    "with\n"
    "what kolo bench allreduce --json FILE measured.\n\n"
    "diagnose says where ranks diverged, from what their flight recorders have written after a\n"
    "failure or a stall, or when kolo dump asked for it.\n";

using kolo::tools::UsageError;

struct Words {
  std::string command;
  std::string folder;
  std::string output;
  std::string bandwidth;
  bool help = false;
};

Words parse(int argc, char** argv) {
  Words words;
  std::vector<std::string> paths;
  po::options_description all("Options");
  auto add = all.add_options();
  add("help,h", po::bool_switch(&words.help));
  add("output,o", po::value(&words.output));
  add("bandwidth", po::value(&words.bandwidth));
  add("command", po::value(&words.command));
  add("path", po::value(&paths));
  po::positional_options_description positions;
  positions.add("command", 1).add("path", -1);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(all).positional(positions).run(), values);
  po::notify(values);
  if (words.help) return words;
  if (words.command.empty()) throw UsageError("no command given");
  if (paths.size() != 1) throw UsageError("'" + words.command + "' takes one folder");
  words.folder = paths[0];
  return words;
}

[[noreturn]] void fail_to_write(const std::string& path) {
  const std::string why = errno == 0 ? "" : ": " + std::generic_category().message(errno);
  throw kolo::FileError(path + ": cannot be written" + why + "; -o FILE writes elsewhere");
}

// Throws if the folder cannot be read, before anything is written into it.
void require_folder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  if (error) throw kolo::FileError(folder + ": cannot be read: " + error.message());
}

// Writes under another name until the file is whole. Returns the path.
template <typename Write>
std::string write_file(const std::string& path, const Write& write) {
  const std::string unfinished = path + ".tmp";
  try {
    errno = 0;
    std::ofstream file(unfinished);
    if (!file) fail_to_write(path);
    write(file);
    errno = 0;
    file.close();
    if (!file || std::rename(unfinished.c_str(), path.c_str()) != 0) fail_to_write(path);
    return path;
  } catch (...) {
    std::remove(unfinished.c_str());
    throw;
  }
}

int merge(const Words& words) {
  const auto write = [&](std::ostream& file) {
    kolo::tools::merge_traces(words.folder, file, std::cerr);
  };
  if (words.output == "-") {
    write(std::cout);
    return 0;
  }
  const std::string path =
      write_file(words.output.empty() ? words.folder + "/all.json" : words.output, write);
  std::cerr << "written to " << path
            << "; open it in https://ui.perfetto.dev or chrome://tracing\n";
  return 0;
}

int report(const Words& words) {
  if (words.output == "-") throw UsageError("report writes a file, not standard output");
  const auto write = [&](std::ostream& file) {
    const kolo::tools::ReportText text = kolo::tools::report_text({words.folder, words.bandwidth});
    std::cout << text.words;
    kolo::tools::write_report(text, file);
  };
  const std::string path =
      write_file(words.output.empty() ? words.folder + "/report.html" : words.output, write);
  std::cout << "written to " << path << "; open it in a browser\n";
  return 0;
}

int diagnose(const Words& words) {
  const kolo::tools::Diagnosis diagnosis =
      kolo::tools::diagnose(kolo::tools::read_flights(words.folder));
  std::cout << diagnosis.text;
  return diagnosis.diverged ? 1 : 0;
}

int run(const Words& words) {
  const std::map<std::string, int (*)(const Words&)> commands = {
      {"merge", merge}, {"report", report}, {"diagnose", diagnose}};
  const auto command = commands.find(words.command);
  if (command == commands.end()) throw UsageError("unknown command '" + words.command + "'");
  require_folder(words.folder);
  return command->second(words);
}

}  // namespace

int main(int argc, char** argv) {
  return kolo::tools::run_command("kolo trace", kUsage, [&] {
    const Words words = parse(argc, argv);
    if (!words.help) return run(words);
    std::cout << kUsage;
    return 0;
  });
}
