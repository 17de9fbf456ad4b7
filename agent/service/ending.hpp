// Computes from an agent's last facts how it ends, and what its last line says. Pure.
#pragma once

#include <string>

#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter {

// The part of a session's end that the facts do not hold.
struct SessionsEnd {
  bool of_worker = false;                // a worker's experiment
  std::optional<int> exit_code, signal;  // of this session's last trainer; at most one is set
  std::string blocked;                   // why a person was needed last
  std::string refused;                   // why nothing was begun

  // To be called after each step of the core.
  void on_stage(const decide::Stage& stage);
};

// The exit status of `spotter run`, a worker's experiment and `spotter prepare`, as in agent.hpp;
// the service's is 0.
int exit_status(const decide::Policy& policy, const decide::Facts& facts, const SessionsEnd& end);

// Why the process ends, and what is to be changed or run again: never empty.
std::string last_words(const decide::Policy& policy, const decide::Facts& facts,
                       const SessionsEnd& end);

// The time to wait for observers: some seconds, unless the machine ends before.
Duration for_last_words(const decide::Facts& facts, Time now);

// A notice came before anything was begun, and there is no other reason to end.
bool was_interrupted_idle(const decide::Facts& facts);

}  // namespace spotter
