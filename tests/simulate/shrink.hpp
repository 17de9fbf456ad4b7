// A run that breaks a promise, played again with as few of its faults as still break the same one
// (Zeller, Hildebrandt: "Simplifying and Isolating Failure-Inducing Input", 2002: ddmin).
#pragma once

#include <cstdint>

#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

struct Shrunk {
  Choice choice;           // only these faults
  std::size_t faults = 0;  // of the first run
  std::uint64_t runs = 0;  // that were tried
};

// REQUIRES: the run of `seed` with `choice` breaks a promise. Plays a few thousand runs at most.
Shrunk shrink(std::uint64_t seed, const Choice& choice);

}  // namespace spotter::simulate
