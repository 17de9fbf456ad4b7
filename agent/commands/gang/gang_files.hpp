// Files by which the processes of a gang's machines inform one another: on the gang's storage, in a
// folder of this process's own, and those that the trainer's ranks write.
#pragma once

#include "agent/gang/stall.hpp"
#include "agent/io/files.hpp"

namespace spotter::command {

class GangFolder : Pinned {
 public:
  // $TMPDIR/spotter-NAME-XXXXXX
  explicit GangFolder(const std::string& name);
  // Under a name that the machine's next process of this member has, too: what one that was killed
  // left there, in memory, goes with it. One of another user's, or that another process has, is
  // left alone.
  struct Named {
    std::string path;
  };
  explicit GangFolder(const Named& named);
  ~GangFolder();

  // Empty: it cannot be made.
  const std::string& path() const { return path_; }
  // Removes the files in it, while what has its name is ours.
  void clear() const;

 private:
  std::string path_;
  io::Descriptor lock_;  // of a named one
};

// Things that the members of a gang have in common on their storage.

// Makes the folders that the trainer works in. The id of the home, which the first member made:
// members/.gang.
Result<std::string> gang_home(const std::string& home, const std::string& checkpoints);

// The highest step of a checkpoint's folder there, as libspotter and the frameworks name them
// (step-000000001234, checkpoint-1234, global_step1234, iter_0001234); -1: there is none. Other
// names may end with any number, a time, say, which would hide the trainer's progress.
std::int64_t newest_step(const std::string& folder);

// Nothing: the storage does not say.
std::optional<bool> result_is_there(const std::string& path);

// The address at which others reach this machine: $SPOTTER_GANG_ADDRESS, else that of its way out.
std::string own_address();

// The trainer's ranks write down which copies of their state are in memory, beside this machine's
// copy (trainer/library/python/spotter/_copies.py).

struct GangCopy {
  std::int64_t step = -1;      // of the newest
  std::uint64_t machines = 0;  // that had it when it was made; 0: there is none
};

// FOLDER/newest: "120 3", the step and the machines. Anything else counts as none.
GangCopy newest_copy(const std::string& folder);
// Forgets an earlier round's: some of its machines may be gone, so the number that has it is
// unknown.
void forget_newest_copy(const std::string& folder);

// The workers' notice file: what the agent's says, and what the gang says.

// When to stop. none: at once.
struct StopBy {
  std::optional<Time> by;
  bool operator==(const StopBy&) const = default;
};

// Reads the agent's file; nothing: there is none.
std::optional<StopBy> read_notice(const std::string& file);
// The earlier of the two.
std::optional<StopBy> earlier(const std::optional<StopBy>& one, const std::optional<StopBy>& other);

// A file in a folder of its own, which goes with this object.
class GangNotice {
 public:
  GangNotice();
  // Empty: it cannot be made.
  const std::string& path() const { return path_; }
  // To be called again and again: what could not be written is written later.
  void say(const std::optional<StopBy>& stop);

 private:
  GangFolder folder_{"gang"};
  std::string path_;
  std::optional<StopBy> said_;  // that the file has
  bool failed_ = false;         // the last time, which was reported
};

// Files that this machine's ranks write about themselves, each rank its own, in one folder: N.step
// ("PID STEP"), and N.stack when they are asked (trainer/library/python/spotter/_ranks.py).
class GangRanks {
 public:
  // Empty: it cannot be made.
  const std::string& folder() const { return folder_.path(); }
  std::vector<gang::RankSeen> look() const;
  // Those of the processes that `is_ours` where they are; without them nothing is signalled:
  // whoever writes to the folder may have written any number.
  void ask(const std::function<bool(pid_t)>& is_ours) const;
  // Forgets the round before.
  void forget() const { folder_.clear(); }

 private:
  GangFolder folder_{"ranks"};
};

}  // namespace spotter::command
