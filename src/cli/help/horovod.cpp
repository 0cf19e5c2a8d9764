#include "cli/help/horovod.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

namespace kolo::cli {
namespace {

constexpr const char* kPython = R"(import torch
import horovod.torch as hvd

hvd.init()
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size())
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
sampler = torch.utils.data.distributed.DistributedSampler(
    dataset, num_replicas=hvd.size(), rank=hvd.rank())
loader = torch.utils.data.DataLoader(dataset, 64, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for data, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(model(data), target).backward()
        optimizer.step()
)";

constexpr const char* kCpp = R"(#include <kolo/kolo.h>
#include <torch/torch.h>

kolo::init();
Net model;
kolo::DistributedOptimizer<torch::optim::SGD> optimizer(
    model, torch::optim::SGDOptions(0.1 * kolo::size()));
kolo::broadcast_parameters(model);
kolo::broadcast_optimizer_state(optimizer);
kolo::DistributedSampler sampler(size, {kolo::size(), kolo::rank()});
auto loader = torch::data::make_data_loader(dataset, sampler, 64);
for (int epoch = 0; epoch < 3; ++epoch) {  // the sampler follows by itself
  for (auto& batch : *loader) {
    optimizer.zero_grad();
    torch::nll_loss(model(batch.data), batch.target).backward();
    optimizer.step();
  }
}
)";

const std::vector<const char*>& different_on_purpose() {
  static const std::vector<const char*> points = {
      "Where ranks disagree about a tensor, an exception on each names the tensor, the ranks and "
      "the difference. Only that tensor fails; all else goes on.",
      "If one rank calls `allreduce` where another calls `broadcast`, every rank gets an "
      "exception: "
      "at once if the calls have no name, otherwise after KOLO_STALL_CHECK_TIME_SECONDS. In "
      "Horovod "
      "they wait for each other.",
      "The average of integers does not wrap around, and that of float16 does not overflow.",
      "A rank that leaves or dies ends the others' waits with an error that names it. "
      "`Handle::wait()` takes a timeout.",
      "What is fused depends on what programs do, not on when messages come, so the same run gives "
      "the same bits. Nothing waits for a cycle.",
      "There is no average argument, only `op`.",
      "The options of `DistributedOptimizer` work together; Horovod ignores some with groups and "
      "with Adasum.",
      "When backward() returns, gradients are reduced: they can be clipped, zeroed or added to "
      "without `synchronize()` or `skip_synchronize()`. A second backward() before `step()` is "
      "allowed.",
      "After a rank's `join()` the others may call every operation.",
      "Process sets come and go at any time.",
      "backward() through collectives gives the gradient of the sum of the ranks' losses, in every "
      "operation; Horovod averages in some.",
      "Groups of broadcasts, send and receive between two ranks, and bfloat16 are new: "
      "`grouped_broadcast`, `send`, `recv`, `sendrecv`."};
  return points;
}

std::string introduction() {
  return std::string("What a program written for Horovod ") + kHorovodVersion +
         " with PyTorch calls, sets and gives on the command line, and what it is in kolo. An "
         "entry without a remark means the same. \"not yet\": kolo lacks it so far. \"none\": kolo "
         "has nothing of that kind, and the remark says why or what to do. Names are in namespace "
         "kolo. Horovod's parts for TensorFlow, Keras, MXNet, Spark and Ray are left out.";
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at != std::string_view::npos;) {
    const std::size_t end = text.find(separator, at);
    parts.emplace_back(text.substr(at, end - at));
    at = end == std::string_view::npos ? end : end + separator.size();
  }
  return parts;
}

std::string in_backticks(std::string_view names) {
  std::string text;
  for (const std::string& name : split(names, ", "))
    text += (text.empty() ? "`" : ", `") + name + "`";
  return text;
}

// "op of allreduce, allreduce_" -> "`op` of `allreduce`, `allreduce_`"
std::string marked_names(const HorovodRow& row) {
  std::string text;
  for (const std::string& part : split(row.names, " of "))
    text += (text.empty() ? "" : " of ") + in_backticks(part);
  return text;
}

std::string without_backticks(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '`'), text.end());
  return text;
}

// Lines of at most 80 characters, each indented; a longer word has a line of its own.
std::string wrapped(const std::string& text, std::size_t indent) {
  constexpr std::size_t kWidth = 80;
  std::string lines;
  std::string line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      lines += std::string(indent, ' ') + std::exchange(line, "") + "\n";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? lines : lines + std::string(indent, ' ') + line + "\n";
}

std::string plain(const std::string& text, std::size_t indent) {
  return wrapped(without_backticks(text), indent);
}

std::string indented(std::string_view code) {
  std::string text;
  for (const std::string& line : split(code, "\n"))
    text += line.empty() ? "\n" : "  " + line + "\n";
  return text;
}

std::string upper_case(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// "[errors.md](errors.md)" -> "errors.md"
std::string without_links(std::string text) {
  for (std::size_t at = 0; (at = text.find("](", at)) != std::string::npos;) {
    text.erase(at, text.find(')', at) + 1 - at);
    const std::size_t open = text.rfind('[', at);
    text.erase(open, 1);
  }
  return text;
}

}  // namespace

std::vector<HorovodSection> horovod_sections() {
  std::vector<HorovodSection> sections = horovod_call_sections();
  for (HorovodSection& section : horovod_job_sections()) sections.push_back(std::move(section));
  return sections;
}

std::string horovod_page() {
  std::string page =
      "# From Horovod to kolo\n\n<!-- Made from the table in src/cli/help/horovod_calls.cpp and "
      "src/cli/help/horovod_job.cpp by `kolo help horovod --markdown`; tests compare them, and the "
      "table with tests/horovod/entries.txt. -->\n\n" +
      introduction() + "\n\n## How a program changes\n\nHorovod, started by `horovodrun -np 4 " +
      "python train.py`:\n\n```python\n" + kPython + "```\n\nkolo, started by `kolo run -np 4 " +
      "./train`:\n\n```cpp\n" + kCpp + "```\n\n## What is different on purpose\n\n";
  for (const char* point : different_on_purpose()) page += std::string("- ") + point + "\n";
  for (const HorovodSection& section : horovod_sections()) {
    page += "\n## " + section.title + "\n\n";
    if (!section.text.empty()) page += section.text + "\n\n";
    page += "| Horovod | kolo | remark |\n|---|---|---|\n";
    for (const HorovodRow& row : section.rows)
      page += "| " + marked_names(row) + " | " + row.kolo + " | " + row.remark + " |\n";
  }
  return page;
}

std::string horovod_text() {
  std::string text =
      wrapped(introduction(), 0) +
      "\nHOW A PROGRAM CHANGES\n\nHorovod, started by 'horovodrun -np 4 python train.py':\n\n" +
      indented(kPython) + "kolo, started by 'kolo run -np 4 ./train':\n\n" + indented(kCpp) +
      "WHAT IS DIFFERENT ON PURPOSE\n\n";
  for (const char* point : different_on_purpose()) {
    std::string lines = plain(point, 2);
    lines[0] = '-';
    text += lines;
  }
  for (const HorovodSection& section : horovod_sections()) {
    text += "\n" + upper_case(section.title) + "\n\n";
    if (!section.text.empty()) text += plain(without_links(section.text), 0) + "\n";
    for (const HorovodRow& row : section.rows) {
      text += wrapped(row.names, 0) + plain("kolo: " + row.kolo, 4) + plain(row.remark, 4);
    }
  }
  return text;
}

}  // namespace kolo::cli
