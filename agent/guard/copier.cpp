#include "agent/guard/copier.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "agent/io/child.hpp"

namespace spotter::guard {
namespace {

constexpr std::chrono::seconds pause_after_failure(60);
constexpr useconds_t microseconds_between_looks = 10'000;

std::vector<std::string> environment_of_program() {
  constexpr std::array<std::string_view, 12> passed_on = {
      "AWS_",  "SSL_CERT_", "HTTPS_PROXY=", "https_proxy=", "HTTP_PROXY=", "http_proxy=",
      "LANG=", "NO_PROXY=", "no_proxy=",    "PATH=",        "TZ=",         "HOME="};
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    if (std::ranges::any_of(passed_on, [&](auto begin) { return variable.starts_with(begin); }))
      all.emplace_back(variable);
  }
  return all;
}

// Sets the share of the process's own session. Between sessions Linux divides the processor by this
// (sched(7), "The autogroup feature"), and not by the priorities of processes; below a cgroup that
// divides it, as a container's does, it is the other way round.
bool set_autogroup(const char* file, std::string_view nice) {
  const io::Descriptor group(::open(file, O_WRONLY | O_CLOEXEC));
  return group && ::write(group.get(), nice.data(), nice.size()) > 0;
}

// In the child: training has the processor first.
void lower_priority() {
  constexpr int lowest = 19;
  ::setpriority(PRIO_PROCESS, 0, lowest);
  if (::setsid() >= 0) (void)set_autogroup("/proc/self/autogroup", "19");
}

}  // namespace

std::optional<std::string> Copier::look() {
  std::optional<std::string> words;
  if (pid_ != 0 && has_ended()) words = read_words();
  if (pid_ == 0 && wanted_ && Clock::now() >= not_before_) start(Priority::Lowest);
  return words;
}

std::optional<std::string> Copier::finish(std::chrono::milliseconds limit) {
  if (program_.empty()) return std::nullopt;
  if (wanted_) {
    kill();  // what is under way is of an older one
    start(Priority::Usual);
  }
  if (pid_ == 0) return std::nullopt;  // the newest is copied
  set_autogroup(("/proc/" + std::to_string(pid_) + "/autogroup").c_str(), "0");  // nobody trains
  for (const auto end = Clock::now() + limit; pid_ != 0 && !has_ended();) {
    if (Clock::now() >= end) {
      kill();
      return "the last checkpoint is not copied to S3: no time is left";
    }
    ::usleep(microseconds_between_looks);
  }
  return read_words();
}

void Copier::start(Priority priority) {
  wanted_ = false;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  words_ = io::Descriptor(ends[0]);
  const io::Descriptor output(ends[1]);
  const io::Program program(program_, environment_of_program());
  const pid_t guard = ::getpid();
  pid_ = io::fork_child([&] {
    if (!io::die_with(guard, SIGKILL)) return 1;
    if (priority == Priority::Lowest) lower_priority();
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(output.get(), 1) < 0) return 1;
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    program.execute();
    return 1;
  });
  if (pid_ < 0) pid_ = 0;
}

bool Copier::has_ended() {
  const pid_t ended = ::waitpid(pid_, &status_, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  pid_ = 0;
  return true;
}

// A copy that is interrupted has no manifest.
void Copier::kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

std::optional<std::string> Copier::read_words() {
  std::array<char, 2048> buffer{};
  const ssize_t got = ::read(words_.get(), buffer.data(), buffer.size());
  std::string words(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (words.ends_with('\n')) words.pop_back();
  if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0) {
    last_trouble_.clear();
    if (words.empty() || std::exchange(copies_, true)) return std::nullopt;
    return words + " is copied to S3, as the newest checkpoint is from here on";
  }
  if (words.empty()) words = "the program that copies checkpoints to S3 ended without a message";
  copies_ = false;
  not_before_ = Clock::now() + pause_after_failure;
  wanted_ = true;
  if (words == last_trouble_) return std::nullopt;
  last_trouble_ = words;
  return words;
}

}  // namespace spotter::guard
