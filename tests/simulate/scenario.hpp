// A story as a file of tests/scenarios: what was scripted, and the transcript that follows from it.
//
//   # Killed right after the commit: the next instance promotes the verified copy
//   seed 1
//   replacement other-zone              same-zone | other-zone | any-zone
//   steps 6                             of the trainer, until it has finished
//   checkpoint-every 2
//   step-takes 10                       seconds
//   attempts 50                         without progress, until the job is given up
//   gpus 8                              that the trainer needs (the next one only then)
//   lacking 1                           so many machines have too few of them
//   fence                               the job has one
//   bucket                              the job's home is in one
//   storage share                       (the next two only then)
//   once no                             yes: `spotter run`, which somebody else starts again
//   silence 60                          seconds, of a fault share-silent
//   fault kill-instance after-effect delete-volume 1
//   fault kill-agent point 123
//   ---
//   (the transcript)
//
// A run with drawn faults has `dice` instead of a script, and perhaps `without` or `only`, with
// numbers of faults as in --without.
#pragma once

#include <string>

#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

struct Scenario {
  std::string title;
  std::uint64_t seed = 1;
  bool dice = false;  // then `choice` counts, else `script`
  Choice choice;
  Script script;

  Simulation play(bool record) const;
  std::string header() const;  // up to and with the line ---
};

// "3,17,20..40"; throws std::invalid_argument with words for a person.
std::set<std::uint64_t> numbers_in(const std::string& text);
std::string text_of(const std::set<std::uint64_t>& numbers);

// The transcript as people read it: looks that find nothing new are left out, and of a job of days
// all that it does each minute while it trains.
std::string condensed(const std::deque<std::string>& transcript, bool of_days = false);

// Plays FILE and compares; with SPOTTER_REWRITE=1 writes it again. The exit status.
int replay_scenario(const std::string& file);
// Writes `scenario` and its transcript to FILE. The exit status.
int write_scenario(const std::string& file, const Scenario& scenario);

}  // namespace spotter::simulate
