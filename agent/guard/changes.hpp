// What happens to the files of a folder and all its subfolders, by inotify(7).
#pragma once

#include <sys/inotify.h>

#include <map>
#include <string>
#include <vector>

#include "agent/guard/contents.hpp"

namespace spotter::guard {

struct Change {
  enum class Kind : std::uint8_t {
    Closed,    // by a writer, or moved here
    Modified,  // written to
    Removed,   // a file of a folder that is one checkpoint went
    Folders,   // a folder came, went or moved, or events were lost: watch() and look at all again
  };
  Kind kind = Kind::Closed;
  // Relative to the place's directory: the file, or the folder that is one checkpoint, whatever
  // happened in it; of Folders empty.
  std::string name;
};

class Changes {
 public:
  // REQUIRES: `place` outlives this.
  explicit Changes(const Place& place) : place_(place) {}

  // Watches every folder there is now, beside those watched already; answers the matching files in
  // them, or the folders that are one checkpoint: one that was finished before its folder was
  // watched gives no event. Of folders that are one checkpoint each the newest are watched, those
  // that need 4096 watches at most, and one in any case.
  Result<std::vector<Found>> watch();

  // What has happened since, in order, without waiting.
  std::vector<Change> read();

  int descriptor() const { return inotify_.get(); }  // readable when read() has something

 private:
  Result<void> watch_folder(const std::string& folder);
  Result<std::vector<Found>> list(std::vector<std::string>& folders) const;
  void take(const inotify_event& event, const char* name, std::vector<Change>& changes) const;

  const Place& place_;
  Descriptor inotify_;
  std::map<int, std::string> folders_;  // by watch
};

}  // namespace spotter::guard
