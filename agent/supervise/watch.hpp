// Watches one trainer from its start until its end is recorded. Internal to supervise.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/supervise/follower.hpp"
#include "agent/supervise/launch.hpp"
#include "agent/supervise/lease.hpp"
#include "agent/supervise/record.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/shell_start.hpp"
#include "agent/supervise/sidecar.hpp"
#include "agent/supervise/supervisor.hpp"

namespace spotter::supervise {

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
