// A life that breaks a promise, told again with as few of its faults as still break the same one
// (Zeller, Hildebrandt: "Simplifying and Isolating Failure-Inducing Input", 2002: ddmin).
#pragma once

#include <cstdint>

#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

struct Shrunk {
  Choice choice;            // only these faults
  std::size_t faults = 0;   // of the life before
  std::uint64_t lives = 0;  // that were tried
};

// REQUIRES: the life of `seed` with `choice` breaks a promise. Never more than a few thousand
// lives.
Shrunk shrink(std::uint64_t seed, const Choice& choice);

}  // namespace spotter::simulate
