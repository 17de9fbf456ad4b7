// The program that `spotter supervise` has to run. It arrives as JSON on stdin, because it holds
// secrets.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <map>

#include "agent/supervise/account.hpp"

namespace spotter::supervise {

struct Spec {
  static constexpr std::string_view keys =
      "command shell user environment secrets own environment_kind working_directory log_file "
      "stop_signal job lease refuse_metadata sets_up refuse_administrators companion follower";
  std::string command;  // run as `SHELL -l -c command`
  std::string shell;    // empty: the user's own; bash, or sh, where that is nologin or false
  std::string user;     // without root only the current user
  std::map<std::string, std::string> environment;  // all that the trainer gets beside HOME, USER,
                                                   // LOGNAME, SHELL, PATH and LANG; secrets, too
  std::string secrets;  // the secret ones: names, separated by spaces. Their values are masked in
                        // the last words, which the agent writes to the journal
  std::string own;      // names that the job itself gives: the Python environment's own variables
                        // replace the others
  std::string environment_kind = "none";  // or "conda NAME", "venv PATH"
  std::string working_directory;          // absolute, must exist; empty: the user's home
  std::string log_file;                   // absolute; appended to; made with the user as its owner
  int stop_signal = SIGTERM;  // sent to the trainer when the supervisor gets SIGTERM; 0: none
  std::string job;
  std::string lease;             // a file with its end (run_directory.hpp); empty: no such limit
  bool refuse_metadata = false;  // the instance's metadata service must not answer the trainer
  bool sets_up = false;          // the command begins with `spotter set-up`
  bool refuse_administrators = false;  // a user who could become root (account.hpp) starts nothing
  std::vector<std::string> sidecar;    // a program and its arguments (sidecar.hpp); empty: none
  std::vector<std::string> follower;   // the same (supervisor.cpp)
};

// A record (base/record.hpp); command, user and log_file are required. A failure names the key,
// never a value.
Result<Spec> parse_spec(std::string_view json);
std::string to_json(const Spec& spec);

inline constexpr std::size_t spec_size_limit = 4U << 20;

// A Spec resolved against this machine, so that every error in it is found before a process is
// forked.

struct Launch {
  Account account;
  std::string shell;                     // absolute path
  std::vector<std::string> arguments;    // SHELL -l -c COMMAND
  std::vector<std::string> environment;  // NAME=value
  std::string working_directory;
  bool refuse_metadata = false;  // keep this account, which is not ours, from the metadata service
  // Mounted views of data, which the trainer finds by $SPOTTER_VIEWS (host/mounts.hpp).
  std::vector<int> views;
};

// Fails when there is no such user, working directory, shell or Python environment, and for another
// user while we are not root.
Result<Launch> prepare(const Spec& spec);

}  // namespace spotter::supervise
