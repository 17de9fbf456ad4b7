// What this machine's ranks write down of themselves, each in files of its own in one folder:
// N.step ("PID STEP"), and N.stack when they are asked (trainer/library/python/spotter/_ranks.py).
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "agent/gang/stall.hpp"
#include "agent/tools/gang/gang_folder.hpp"

namespace spotter::command {

class GangRanks {
 public:
  // Empty: it cannot be made.
  const std::string& folder() const { return folder_.path(); }
  std::vector<gang::RankSeen> look() const;
  // Those of the processes that `is_ours` where they are; without them nothing is signalled:
  // whoever writes to the folder may have written any number.
  void ask(const std::function<bool(pid_t)>& is_ours) const;
  // Of the round before.
  void forget() const { folder_.clear(); }

 private:
  GangFolder folder_{"ranks"};
};

}  // namespace spotter::command
