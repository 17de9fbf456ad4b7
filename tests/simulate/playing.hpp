// The core aborts the process when an invariant of its own breaks; this says in which run.
#pragma once

#include <string>

#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

// While it exists, this thread plays `simulation`; `how` says how to play it again.
class Playing {
 public:
  Playing(const Simulation& simulation, std::string how);
  ~Playing();
  Playing(const Playing&) = delete;
  Playing& operator=(const Playing&) = delete;
};

void print_tail(const std::deque<std::string>& transcript, std::size_t lines);
// On SIGABRT: prints the run of the thread that aborts and its transcript's end; exit status 1.
void report_aborts();

}  // namespace spotter::simulate
