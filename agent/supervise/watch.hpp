// Says when the trainer's login shell does not come to the command: something in its profile, such
// as the hook of a version manager, is slow or waits for ever, and the trainer seems to hang.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/supervise/launch.hpp"
#include "agent/supervise/record.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/sidecar.hpp"
#include "agent/supervise/supervisor.hpp"

namespace spotter::supervise {

class ShellStart {
 public:
  // `patience`: in milliseconds, until it is said.
  explicit ShellStart(std::int64_t patience) : patience_(patience) {}

  // Makes the FIFO into which the shell writes before the command. Without one (the file system has
  // none) nothing is said, and the trainer runs as it would.
  void prepare(const RunDirectory& directory, const Launch& launch);
  // The same launch, whose shell first writes into the FIFO.
  Launch marked(Launch launch) const;

  bool is_awaited() const { return awaited_; }
  // For poll(2); -1 when nothing is awaited.
  int descriptor() const { return awaited_ ? fifo_.get() : -1; }
  // Milliseconds until there is something to say; -1: nothing will be.
  int milliseconds_left(std::int64_t now) const;
  // `readable`: POLLIN: the shell has come to the command. Returns what is to be said.
  std::optional<std::string> look(bool readable, std::int64_t now);
  // Removes the FIFO; keeps it open: a shell that is about to open it would wait for ever for a
  // reader.
  void end();

 private:
  std::int64_t patience_;
  std::int64_t began_ = 0;
  bool awaited_ = false;
  bool said_ = false;
  std::string shell_, user_, path_;
  Descriptor fifo_;
};

// The program that reads the trainer's own log of metrics (`spotter follow-log`), with no more
// rights than the trainer. Nothing depends on it: where it fails, the trainer trains without.
class Follower {
 public:
  // No arguments: there is none, and no function does anything.
  explicit Follower(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

  // Returns once it is ready, or after a moment without that. Its failure goes to the log.
  void start(const Launch& trainer, const Descriptor& log, const std::string& control_group);
  bool is(pid_t pid) const { return pid_ != 0 && pid == pid_; }
  // After its end by itself: starts it as `... --again`, a few times at most.
  void restart();
  // It is not started again: the trainer is killed, and so is it.
  void give_up() { restarts_left_ = 0; }
  // The trainer has ended: lets it read the last rows, for a second at most. Then it may be killed
  // as any process of the trainer.
  void end();

 private:
  bool spawn(const std::vector<std::string>& arguments);

  std::vector<std::string> arguments_;
  Launch launch_;
  int log_ = -1;
  std::string control_group_;
  pid_t pid_ = 0;
  Descriptor stdin_, stdout_;
  int restarts_left_ = 5;  // one that fails each time is of no use
};

// Watches one trainer from its start until its end is recorded. Internal to supervise.
class Watch {
 public:
  // Takes the lock, binds the socket, starts the trainer, writes supervisor.json. On failure
  // nothing is left.
  static Result<Watch, StartFailure> begin(const std::string& directory, const Spec& spec,
                                           const Launch& launch);

  pid_t trainer() const { return trainer_; }

  // Passes signals on until the trainer ends; then ends its descendants and writes ended.json.
  void watch_to_end();
  std::string how_it_ended() const;  // for a journal

 private:
  Watch(const std::string& directory, const Spec& spec);

  Result<void> listen();
  Result<void> start_trainer(const Spec& spec, const Launch& launch);
  void undo();

  bool trainer_ended();
  void restart_sidecar();
  void await_shell(bool readable);
  void handle_signal();
  void handle_datagram();
  void enforce_lease();
  void kill_tree();
  std::vector<LeftOver> kill_all();
  void reap_all();
  void end_sidecar();
  std::string end_in_a_word() const;
  std::vector<LeftOver> end_descendants();
  std::string last_words() const;
  void record_end(const std::vector<LeftOver>& left_over);
  std::string ended_json(const std::string& words, const std::vector<LeftOver>& left_over) const;

  RunDirectory directory_;
  int stop_signal_;
  std::string job_;
  std::vector<std::string> secrets_;  // values
  Sidecar sidecar_;
  Follower follower_;
  Lease lease_;
  ShellStart shell_;
  Descriptor lock_;
  Descriptor socket_;
  Descriptor signals_;
  Descriptor log_;
  std::string control_group_;  // the trainer's own; empty: it has none
  off_t log_start_ = 0;
  pid_t trainer_ = 0;
  int status_ = 0;  // as of waitpid, once the trainer has ended
  std::int64_t started_ = 0;
  std::int64_t ended_ = 0;
  std::uint64_t memory_kills_ = 0;  // before the trainer started
  bool out_of_memory_ = false;
  bool checkpoint_doubted_ = false;
};

}  // namespace spotter::supervise
