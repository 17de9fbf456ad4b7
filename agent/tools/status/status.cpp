#include "agent/tools/status/status.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include "agent/aws/settings/settings.hpp"
#include "agent/io/complain.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/tools/status/serve.hpp"
#include "agent/tools/status/status_remote.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

constexpr std::size_t largest = 64U << 10;

struct StatusOptions {
  bool json = false;
  bool watch = false;
  std::string job, publish;
};

// The text to show, or why there is none.
struct Shown {
  std::string text;
  std::string trouble;
};

std::string trouble_in(const std::string& run_directory, const std::error_code& error) {
  if (error == std::errc::permission_denied)
    return "the status in " + run_directory + " may not be read: run as root, or in its group";
  if (error != std::errc::no_such_file_or_directory)
    return "the status in " + run_directory + " cannot be read: " + error.message();
  return "no status in " + run_directory +
         ": no agent has run here (see `systemctl status spotter`)";
}

Shown look(const std::string& run_directory, std::size_t columns) {
  const auto file = io::read_file(run_directory + "/status.json", largest);
  if (!file) return {"", trouble_in(run_directory, file.error())};
  const Time now{io::boot_time()};
  auto text = wire::status_text(*file, now, columns);
  if (!text) {
    const std::string trouble = wire::status_trouble(*file);
    return {"", "the status in " + run_directory + " is " + trouble +
                    (trouble.starts_with("written") ? ", and restart the agent" : "")};
  }
  // A worker's status, followed by its experiment's.
  const std::string below = wire::status_below(*file);
  if (below.starts_with(run_directory + "/"))
    if (const auto inner = io::read_file(below + "/status.json", largest))
      if (const auto more = wire::status_text(*inner, now, columns)) *text += "\n" + *more;
  return {std::move(*text), ""};
}

struct Window {
  std::size_t rows = 1000, columns = 80;  // defaults
};
Window window() {
  Window found;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return found;
  if (size.ws_row > 0) found.rows = size.ws_row;
  if (size.ws_col > 0) found.columns = size.ws_col;
  return found;
}

// Overwrites the old text line by line, then clears the rest, so that nothing flickers. One write,
// or the terminal would show halves.
std::string over(const std::string& text, std::size_t rows) {
  std::string drawn = "\x1b[H";
  std::size_t at = 0;
  for (std::size_t row = 0; row + 1 < rows && at < text.size(); ++row) {
    const auto end = text.find('\n', at);
    drawn += text.substr(at, end - at) + "\x1b[K\n";
    at = end + 1;
  }
  return drawn + "\x1b[J";
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// True: a second has passed, or the window's size has changed. False: asked to end.
bool wait_for_next(const sigset_t& signals) {
  const timespec second{1, 0};
  const int seen = ::sigtimedwait(&signals, nullptr, &second);
  return seen < 0 || seen == SIGWINCH;
}

int watch(const std::string& run_directory) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&signals, each);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  // Uses the alternate screen, which restores the old one at the end, and hides the cursor.
  if (terminal) put("\x1b[?1049h\x1b[?25l");
  std::string before;
  do {
    const Window size = window();
    const Shown seen = look(run_directory, size.columns);
    const std::string text = seen.trouble.empty() ? seen.text : seen.trouble + "\n";
    if (terminal)
      put(over(text, size.rows));
    else if (text != before)
      put(text + "\n");
    before = text;
  } while (std::ferror(stdout) == 0 && wait_for_next(signals));
  if (terminal) put("\x1b[?25h\x1b[?1049l");
  return 0;
}

int written() {
  if (std::ferror(stdout) == 0) return 0;
  return io::complain("status", std::string("cannot write: ") + std::strerror(errno));
}

int show(const StatusOptions& options) {
  const std::size_t columns = ::isatty(STDOUT_FILENO) != 0 ? window().columns : largest;
  if (!options.job.empty())
    return show_remote({options.job, options.publish, options.json, columns});
  const auto run_directory = run_directory_of(act::Environment::of_this_process());
  if (options.watch) return watch(run_directory);
  if (options.json) {
    const auto file = io::read_file(run_directory + "/status.json", largest);
    if (file) put(*file);
    const std::string trouble = file ? wire::status_trouble(*file) : "";
    if (!trouble.empty())
      return io::complain("status", "the status in " + run_directory + " is " + trouble);
    if (file) return written();
  }
  const Shown seen = look(run_directory, columns);
  put(seen.text);
  return seen.trouble.empty() ? written() : io::complain("status", seen.trouble);
}

}  // namespace

void add_status(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "status",
      "What the agent on this instance does; with --job the state of a job, from anywhere");
  auto options = std::make_shared<StatusOptions>();
  auto* json = command->add_flag("--json", options->json, "As the agent wrote it");
  auto* watch =
      command->add_flag("--watch", options->watch, "Follows it, until Ctrl-C")->excludes(json);
  auto* job = command->add_option("--job", options->job,
                                  "A job's name or its description: what EC2 and its agents say "
                                  "of it, even if no instance runs");
  job->excludes(watch);
  command
      ->add_option("--publish", options->publish,
                   "The place in S3 that the job's description has as publish")
      ->needs(job);
  auto page = std::make_shared<ServeOptions>();
  add_serve_options(*command, *page);
  command->callback([options, page, &status] {
    page->shown.job = options->job;
    page->shown.publish = options->publish;
    status = page->wanted ? serve(*page) : show(*options);
  });
}

}  // namespace spotter::command
