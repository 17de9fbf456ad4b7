// A trainer that does not want to end: chains of processes, each of which forks and ends at once.
#pragma once

namespace spotter::supervise {

// Starts the chains and returns. Each hop leaves its session, ignores what can be ignored and
// writes a byte to the file. They end by themselves after half a minute, so that a failed test
// leaves nobody.
int hop(int chains, const char* file);

}  // namespace spotter::supervise
