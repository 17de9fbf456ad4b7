// Has finished folders copied to S3 by another program (`spotter tier`), which runs beside the
// guard with the rights of the trainer's user: the guard itself speaks to no network, and waits for
// none.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "agent/io/files.hpp"

namespace spotter::guard {

class Copier {
 public:
  // The program, an absolute path and its arguments, copies the newest recorded folder and ends:
  // its line on stdout is then the folder's name or, if its status is not 0, the error. It gets
  // only the variables of this process's environment that lead to AWS: the user that it becomes may
  // read them. No words: nothing is copied.
  explicit Copier(std::vector<std::string> program = {}) : program_(std::move(program)) {}
  ~Copier() { kill(); }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // A folder was recorded. The one that is being copied is finished first.
  void offer() { wanted_ = !program_.empty(); }

  // look() has something to do soon.
  bool is_busy() const { return pid_ != 0 || wanted_; }

  // Starts what is to be copied, and what failed once more after a pause, with the lowest priority
  // for the processor: a trainer runs beside it. Does not wait. Returns words for a person to read:
  // of the first copy, of a failure that is not as the one before, and of the first success after
  // it.
  std::optional<std::string> look();

  // Copies the newest now, in the place of an older one, and waits for it at most so long. Then
  // nothing is under way.
  std::optional<std::string> finish(std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Priority { Lowest, Usual };

  void start(Priority priority);
  void kill();
  bool has_ended();
  std::optional<std::string> read_words();

  std::vector<std::string> program_;
  bool wanted_ = false;
  bool copies_ = false;  // said already
  std::string last_trouble_;
  pid_t pid_ = 0;
  int status_ = 0;
  io::Descriptor words_;
  Clock::time_point not_before_;
};

}  // namespace spotter::guard
