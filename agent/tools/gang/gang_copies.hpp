// What the trainer's ranks have written down of the copies of their state in memory, beside this
// machine's copy (trainer/library/python/spotter/_copies.py).
#pragma once

#include <cstdint>
#include <string>

namespace spotter::command {

struct GangCopy {
  std::int64_t step = -1;      // of the newest
  std::uint64_t machines = 0;  // that had it when it was made; 0: there is none
};

// FOLDER/newest: "120 3", the step and the machines. What is no such thing is none.
GangCopy newest_copy(const std::string& folder);
// Of an earlier round, some of whose machines may be gone: nobody knows how many have it now.
void forget_newest_copy(const std::string& folder);

}  // namespace spotter::command
