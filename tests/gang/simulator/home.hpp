// The gang's folder on a share, as libspotter uses it: one writer's lock, of which a server forgets
// that its holder is gone only after a while; shards of a round's ranks; commits. Each promise that
// is broken is a line in `broken`.
#pragma once

#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "agent/base/names.hpp"

namespace spotter::gang {

// A worker of rank 0, or of another: no two ever have the same number.
using Process = std::uint64_t;

class Home {
 public:
  struct Commit {
    std::uint64_t round = 0;
    std::int64_t step = -1;
  };
  explicit Home(std::vector<std::string>& broken) : broken_(broken) {}

  std::int64_t newest() const { return commits_.empty() ? -1 : commits_.back().step; }
  // The number of the newest commit. A worker that restores it goes on with its history.
  std::size_t history() const { return commits_.size(); }

  // False: another holds it. `serves`: the server takes that one to be there.
  bool take(Process process, bool serves) {
    if (holder_ && *holder_ != process && serves) return false;
    holder_ = process;
    return true;
  }
  const std::optional<Process>& holder() const { return holder_; }
  // WriterLock::still_held()
  bool holds(Process process) const { return holder_ == process; }

  void add_shard(std::uint64_t round, std::int64_t step, const std::string& member) {
    shards_.emplace(round, step, member);
  }
  void commit(Commit what, std::size_t history, const std::vector<std::string>& ranks) {
    const std::string words =
        "step " + std::to_string(what.step) + " of round " + std::to_string(what.round);
    if (history != commits_.size())
      broken_.push_back("two gangs on one history: " + words + " follows commit " +
                        std::to_string(history) + " of " + std::to_string(commits_.size()));
    if (what.step <= newest()) broken_.push_back("one commit a step: " + words + " comes again");
    if (!commits_.empty() && what.round < commits_.back().round)
      broken_.push_back("two gangs on one history: " + words + " follows a later round");
    for (const std::string& each : ranks)
      if (!shards_.contains({what.round, what.step, each}))
        broken_.push_back("no commit without all shards: " + words + " lacks that of " + each);
    commits_.push_back(what);
  }

 private:
  std::vector<std::string>& broken_;
  std::optional<Process> holder_;
  std::vector<Commit> commits_;
  std::set<std::tuple<std::uint64_t, std::int64_t, std::string>> shards_;
};

}  // namespace spotter::gang
