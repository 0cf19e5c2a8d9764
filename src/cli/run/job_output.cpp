#include "cli/run/job_output.hpp"

#include <unistd.h>

#include <system_error>

#include "core/terminal.hpp"

namespace kolo::cli {

JobOutput::JobOutput(const OutputOptions& options, int size)
    : out(STDOUT_FILENO),
      err(STDERR_FILENO),
      options_(options),
      renderer_({options.prefix ? [this](int rank, bool is_error) { return tag(rank, is_error); }
                                : std::function<std::string(int, bool)>(),
                 options.timestamp ? current_timestamp : std::function<std::string()>()}),
      file_renderer_({{}, options.timestamp ? current_timestamp : std::function<std::string()>()}) {
  if (!options.folder.empty()) files_.emplace(options.folder, size);
}

std::string JobOutput::tag(int rank, bool is_error) const {
  std::string text = "[" + std::to_string(rank);
  if (options_.tag_output) {
    const auto started = record_.started.find(rank);
    text += started == record_.started.end() ? std::string() : " " + started->second.host;
    text += is_error ? " stderr" : " stdout";
  }
  return text + "] ";
}

// Adds text around the progress line. Both queues may lead to one terminal.
void JobOutput::push(OutputQueue& queue, const std::string& text) {
  if (::isatty(queue.fd()) != 1) return queue.push(text);
  queue.push(progress_line_.place(text, terminal_columns(queue.fd())));
}

void JobOutput::keep(const Rendered& rendered) {
  const std::string wrong = files_->write(rendered.rank, rendered.text);
  if (!wrong.empty()) say(wrong);
}

void JobOutput::feed(const std::string& bytes) {
  std::size_t begin = 0;
  for (std::size_t stop = 0; (stop = bytes.find('\n', begin)) != std::string::npos;) {
    line_.append(bytes, begin, stop - begin);
    on_line(line_);
    line_.clear();
    begin = stop + 1;
  }
  line_.append(bytes, begin);
}

void JobOutput::on_line(const std::string& line) {
  const Decoded decoded = decode(line);
  if (!decoded.packet || !decoded.before.empty()) {
    launcher_text_.add(decoded.before, Clock::now());
    record_.launcher = launcher_text_.report();
  }
  if (decoded.packet) on_packet(*decoded.packet);
}

void JobOutput::on_packet(const Packet& packet) {
  if (packet.kind == PacketKind::kOutput || packet.kind == PacketKind::kError) {
    show(renderer_.add(packet));
    if (files_) keep(file_renderer_.add(packet));
  } else if (packet.kind == PacketKind::kStarted) {
    const std::optional<Started> started = decode_started(packet.payload);
    if (!started) return;
    record_.started[packet.rank] = *started;
    if (options_.verbose) {
      say("rank " + std::to_string(packet.rank) + " on host " + started->host + ", pid " +
          std::to_string(started->pid));
    }
  } else if (const std::optional<Ended> ended = decode_ended(packet.payload)) {
    on_ended(packet.rank, *ended);
  }
}

void JobOutput::on_ended(int rank, const Ended& ended) {
  record_.ends.push_back({rank, ended});
  if (is_success(ended)) return;
  if (ended.was_told && !options_.verbose) return;
  std::string text = "[";
  text.append(std::to_string(rank)).append("] kolo: ");
  if (ended.how == Ending::kNotStarted) {
    text += "host " + ended.from.host + " ";
  } else {
    text += ended.program + " (pid " + std::to_string(ended.from.pid) + ") on host " +
            ended.from.host + " ";
  }
  text += how_it_ended(ended);
  if (ended.lost_peer) text += ", after it had lost another rank";
  push(err, text + "\n");
}

void JobOutput::show_launcher_text(bool everything) {
  for (const std::string& text : launcher_text_.take(Clock::now(), everything)) {
    if (!options_.verbose && is_failure_banner(text)) {
      withheld_ += text;
    } else {
      push(err, text);
    }
  }
  record_.launcher = launcher_text_.report();
}

void JobOutput::tell_of_lost_output() {
  if (lost_is_told_ || out.error() == 0) return;
  lost_is_told_ = true;
  say("cannot write to " + lost_output() + "; the job goes on, and what it prints now is lost");
}

std::string JobOutput::lost_output() const {
  for (const OutputQueue* queue : {&out, &err}) {
    if (queue->error() == 0) continue;
    return std::string(queue == &out ? "standard output" : "standard error") + ": " +
           std::generic_category().message(queue->error());
  }
  return files_ && files_->has_failed() ? "the files of --output-dir" : "";
}

void JobOutput::finish() {
  for (const Rendered& rest : renderer_.finish()) show(rest);
  for (const Rendered& rest : file_renderer_.finish()) {
    if (files_) keep(rest);
  }
  if (!line_.empty()) on_line(line_);
  line_.clear();
  show_launcher_text(true);
  err.push(progress_line_.clear());
}

}  // namespace kolo::cli
