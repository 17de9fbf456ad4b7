// The workers' notice file: what the agent's says, and what the gang says.
#pragma once

#include <optional>
#include <string>

#include "agent/base/names.hpp"
#include "agent/tools/gang/gang_folder.hpp"

namespace spotter::command {

// When to stop. none: at once.
struct StopBy {
  std::optional<Time> by;
  bool operator==(const StopBy&) const = default;
};

// Of the agent's file; nothing: there is none.
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

}  // namespace spotter::command
