// A disk that has lost power: what it may hold after a cut at any point of a recorded run.
//
// Synced data and names are there. All else may be there or not, each by itself, data also in part:
//  Journal  names in the order in which they were changed, up to some point after the last sync of
//           anything (ext4 and xfs: the log is one, and every fsync forces it)
//  Weak     each change of a name by itself (what POSIX leaves open)
#pragma once

#include <filesystem>
#include <random>
#include <vector>

#include "tests/trainer/shim.hpp"

namespace spotter::test {

class Recording {
 public:
  // Takes down what changes below `directory`, which has to be empty and is there already.
  explicit Recording(const std::filesystem::path& directory);
  ~Recording() { shim_.remove(); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // From here on this step is promised to be there. From any thread.
  void acknowledge(std::uint64_t step);
  void stop() { shim_.remove(); }

  std::size_t size() const { return log_.size(); }
  // The newest step promised before the cut; 0: none.
  std::uint64_t acknowledged(std::size_t cut) const;

  enum class Model { Journal, Weak };
  struct Choice {
    Model model = Model::Weak;
    double chance = 0.5;         // that something not synced is there: 0 nothing, 1 all
    bool syncs_are_kept = true;  // false: a disk that lies, to see that the test would notice
  };
  // Writes to `target` (a directory) what is on the disk after a cut before entry `cut`.
  void materialise(std::size_t cut, const Choice& choice, std::mt19937_64& random,
                   const std::filesystem::path& target) const;

 private:
  struct Entry {
    Call call;
    std::string bytes;               // the call's own, kept
    std::uint64_t acknowledged = 0;  // not a call, but a promise
  };

  Shim shim_;
  std::vector<Entry> log_;
};

}  // namespace spotter::test
