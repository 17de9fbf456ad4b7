// A program that runs beside the trainer: `spotter guard`, which is ready before the trainer
// starts, gets a word when that has ended, and is waited for; and what follows its log. It dies
// with the supervisor.
#pragma once

#include <functional>

#include "agent/supervise/launch.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {

// True: that process is the sidecar started last, and not a later one with the same pid.
bool is_sidecar(const std::string& run_directory, pid_t pid);

class Sidecar {
 public:
  // Runs the program with these arguments, this stdin and this stdout.
  using Spawn = std::function<Result<pid_t>(const std::vector<std::string>& arguments, int input,
                                            int output)>;

  // No arguments: there is no sidecar, and no function does anything. Before the program begins,
  // its pid is written to the run directory, for is_sidecar(). No directory: it is not written.
  // No environment: this process's own.
  explicit Sidecar(std::vector<std::string> arguments = {}, std::string run_directory = {},
                   std::optional<std::vector<std::string>> environment = {});
  // `spawn` runs the program.
  Sidecar(std::vector<std::string> arguments, Spawn spawn)
      : arguments_(std::move(arguments)), spawn_(std::move(spawn)) {}

  // Returns once it has written `ready` to its stdout. Fails with what it wrote instead, or when it
  // writes nothing for `limit`.
  Result<void> start(std::chrono::milliseconds limit);
  // Returns the first line, whatever it is; "": none came for `limit`.
  Result<std::string> begin(std::chrono::milliseconds limit);
  // Starts it again, as `... --again`, after it ended by itself; a few times at most. Does not wait
  // for `ready`. Fails with what the ended one wrote, or why none was started: the caller calls it
  // again, after a pause, while wanted().
  Result<void> restart();
  // It should run, and does not.
  bool wanted() const { return !arguments_.empty() && pid_ == 0 && restarts_ <= restarts_limit; }

  bool is(pid_t pid) const { return pid_ != 0 && pid == pid_; }
  bool runs() const { return pid_ != 0; }
  pid_t pid() const { return pid_; }
  void forget() {  // it was waited for, and must not be started again
    pid_ = 0;
    restarts_ = restarts_limit + 1;
  }
  void send(const std::string& word) const;
  // The line that it wrote last, but for `ready`; "": none.
  std::string last_word() const { return read_word({}); }
  void kill() const;

 private:
  static constexpr int restarts_limit = 5;  // one that fails each time is of no use

  Result<void> spawn(const std::vector<std::string>& arguments);
  std::string read_word(std::chrono::milliseconds limit) const;

  std::vector<std::string> arguments_;
  Spawn spawn_;
  pid_t pid_ = 0;
  Descriptor stdin_;
  Descriptor words_;
  int restarts_ = 0;
};

// This process's environment, but for what leads to AWS: that is the trainer's.
std::vector<std::string> environment_of_sidecar(const Spec& spec);

}  // namespace spotter::supervise
