#include "agent/supervise/supervisor.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "agent/io/child.hpp"
#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/trainer.hpp"
#include "agent/supervise/watch.hpp"

namespace spotter::supervise {
namespace {

constexpr int report_number = 3;  // the detached supervisor's descriptor of the pipe to its starter

// One line to the starter: "ok SUPERVISOR TRAINER", or "running", "left" or "failed" and a message.
void report(const std::string& line) {
  [[maybe_unused]] const ssize_t written = write(report_number, line.data(), line.size());
  close(report_number);
}

std::string words_of(const StartFailure& what) {
  using Kind = StartFailure::Kind;
  const bool left = what.kind == Kind::ProcessesLeft;
  return (what.kind == Kind::AlreadyRunning ? "running "
          : left                            ? "left "
                                            : "failed ") +
         what.message;
}

std::string words_of(const Watch& watch) {
  return "ok " + std::to_string(getpid()) + " " + std::to_string(watch.trainer());
}

// Keeps only the pipe of the starter's descriptors: a process that reads the starter's output to
// its end must not wait for us.
void close_all_but(int pipe) {
  dup2(pipe, report_number);
  fcntl(report_number, F_SETFD, FD_CLOEXEC);
  close_range(report_number + 1, ~0U, 0);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard = 0; standard <= 2; ++standard) dup2(null, standard);
  close(null);
  umask(022);
  [[maybe_unused]] const int ignored =
      chdir("/");  // our working directory must not keep a mount busy
}

int run_supervisor(const std::string& directory, const Spec& spec, const Launch& launch, int pipe) {
  close_all_but(pipe);
  auto watch = Watch::begin(directory, spec, launch);
  if (!watch) {
    report(words_of(watch.error()));
    return 1;
  }
  report(words_of(*watch));
  watch->watch_to_end();
  return 0;
}

tl::unexpected<StartFailure> failed(std::string message) {
  return tl::unexpected(StartFailure{StartFailure::Kind::Failed, std::move(message)});
}

}  // namespace

int exit_status(const StartFailure& why) {
  constexpr int running = 3;
  if (why.kind == StartFailure::Kind::AlreadyRunning) return running;
  return why.kind == StartFailure::Kind::ProcessesLeft ? processes_left_status : 1;
}

Result<Started, StartFailure> read_report(const std::string& line) {
  using Kind = StartFailure::Kind;
  std::istringstream words(line);
  std::string first;
  Started started;
  words >> first;
  if (first == "ok" && words >> started.supervisor_pid >> started.trainer_pid) return started;
  const auto space = line.find(' ');
  if (space == line.npos)
    return tl::unexpected(StartFailure{Kind::Failed, "the supervisor died while starting"});
  const Kind kind = first == "running" ? Kind::AlreadyRunning
                    : first == "left"  ? Kind::ProcessesLeft
                                       : Kind::Failed;
  return tl::unexpected(StartFailure{kind, line.substr(space + 1)});
}

Result<Started, StartFailure> start(const std::string& run_directory, const Spec& spec) {
  if (run_directory.empty() || run_directory[0] != '/')
    return failed("the run directory must be an absolute path");
  const auto launch = prepare(spec);
  if (!launch) return failed(launch.error().message);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed("pipe: " + std::string(std::strerror(errno)));
  const Descriptor report_in(ends[0]);
  Descriptor report_out(ends[1]);
  const pid_t between = io::fork_child([&] {
    setsid();
    const pid_t supervisor = io::fork_child([&] {  // not a leader: gets no terminal
      return run_supervisor(run_directory, spec, *launch, report_out.get());
    });
    return supervisor < 0 ? 1 : 0;
  });
  if (between < 0) return failed("fork: " + std::string(std::strerror(errno)));
  report_out.close();
  waitpid(between, nullptr, 0);
  return read_report(read_to_end(report_in.get()));
}

int run_as_service(const std::string& run_directory, const Spec& spec, const std::string& report) {
  const Descriptor to(open(report.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW));
  const auto say = [&to](const std::string& line) {
    dprintf(2, "%s\n", line.substr(line.find(' ') + 1).c_str());
    [[maybe_unused]] const ssize_t written = write(to.get(), line.data(), line.size());
    return 1;
  };
  const auto launch = prepare(spec);
  if (!launch) return say("failed " + launch.error().message);
  umask(022);
  auto watch = Watch::begin(run_directory, spec, *launch);
  if (!watch) return say(words_of(watch.error()));
  const std::string line = words_of(*watch);
  [[maybe_unused]] const ssize_t written = write(to.get(), line.data(), line.size());
  sd_notify(1, "READY=1");
  watch->watch_to_end();
  dprintf(2, "the trainer ended: %s\n", watch->how_it_ended().c_str());
  return 0;
}

}  // namespace spotter::supervise
