#include "agent/supervise/companion.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace spotter::supervise {
namespace {

constexpr int restarts_limit = 5;  // one that always dies does no good

[[noreturn]] void become(const std::vector<std::string>& arguments, int input, int output,
                         pid_t supervisor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(input, 0);
  dup2(output, 1);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  std::vector<char*> words;
  for (const auto& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  dprintf(1, "cannot run %s: %s\n", words[0], std::strerror(errno));
  _exit(1);
}

std::string read_line(int file) {
  std::string line;
  char each = 0;
  while (true) {
    const ssize_t got = read(file, &each, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || each == '\n') return line;
    line += each;
  }
}

}  // namespace

Result<void> Companion::start() {
  if (arguments_.empty()) return {};
  return spawn(arguments_);
}

void Companion::restart() {
  pid_ = 0;
  if (++restarts_ > restarts_limit) return;
  auto arguments = arguments_;
  arguments.emplace_back("--again");
  std::ignore = spawn(arguments);
}

Result<void> Companion::spawn(const std::vector<std::string>& arguments) {
  int input[2];
  int output[2];
  if (pipe2(input, O_CLOEXEC) != 0) return failure("pipe: " + std::string(std::strerror(errno)));
  const Descriptor its_input(input[0]);
  stdin_ = Descriptor(input[1]);
  if (pipe2(output, O_CLOEXEC) != 0) return failure("pipe: " + std::string(std::strerror(errno)));
  const Descriptor words(output[0]);
  Descriptor its_output(output[1]);
  const pid_t supervisor = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    pid_ = 0;
    return failure("fork: " + std::string(std::strerror(errno)));
  }
  if (pid_ == 0) become(arguments, its_input.get(), its_output.get(), supervisor);
  its_output.reset();
  const std::string line = read_line(words.get());
  if (line == "ready") return {};
  kill();
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
  return failure(line.empty() ? arguments.front() + " ended without a word" : line);
}

void Companion::tell(const std::string& word) const {
  if (pid_ == 0) return;
  [[maybe_unused]] const auto written = write(stdin_.get(), word.data(), word.size());
}

void Companion::kill() const {
  if (pid_ != 0) ::kill(pid_, SIGKILL);
}

}  // namespace spotter::supervise
