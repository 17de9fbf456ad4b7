#include "agent/tools/machine/supervise.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "agent/io/complain.hpp"
#include "agent/supervise/supervisor.hpp"

namespace spotter::command {
namespace {

Result<std::string> read_all(const std::string& name) {
  const int file = name == "-" ? dup(0) : open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return failure("cannot open the spec " + name + ": " + std::strerror(errno));
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while (text.size() <= supervise::spec_size_limit) {
    got = read(file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  const std::string error = got < 0 ? std::strerror(errno) : "";
  close(file);
  if (!error.empty()) return failure("cannot read the spec " + name + ": " + error);
  return text;
}

}  // namespace

int supervise(int argc, char** argv) {
  CLI::App app("Starts a trainer and stays behind as its parent; returns once the trainer runs",
               "spotter supervise");
  std::string directory;
  std::string spec_name;
  app.add_option("--run-directory", directory, "where lock, socket and results are")->required();
  app.add_option("--spec", spec_name, "what to run, as JSON: a file, or - for stdin")->required();
  std::string report;
  app.add_option("--report", report,
                 "be the parent, as a systemd service: the file that gets the result of the start; "
                 "the spec's file is removed");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto text = read_all(spec_name);
  if (!text) return io::complain("supervise", text.error().message, 2);
  const auto spec = supervise::parse_spec(*text);
  if (!spec) return io::complain("supervise", spec.error().message, 2);
  std::error_code ignored;
  if (!report.empty()) {
    std::filesystem::remove(spec_name, ignored);  // it holds secrets
    return supervise::run_as_service(directory, *spec, report);
  }
  const auto absolute = std::filesystem::absolute(directory, ignored).string();
  const auto started = supervise::start(absolute, *spec);
  if (started) return 0;
  return io::complain("supervise", started.error().message,
                      supervise::exit_status(started.error()));
}

}  // namespace spotter::command
