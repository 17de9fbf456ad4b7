// What happens to the files of a folder and all its subfolders, by inotify(7).
#pragma once

#include <sys/inotify.h>

#include <map>
#include <string>
#include <vector>

#include "agent/guard/place.hpp"

namespace spotter::guard {

struct Change {
  enum class Kind : std::uint8_t {
    Closed,    // by a writer, or moved here, or a link that was made
    Modified,  // written to
    Removed,   // or moved away
    Folders,   // a folder came, went or moved, or events were lost: watch() and look at all again
  };
  Kind kind = Kind::Closed;
  std::string name;  // of the file, relative to the place's directory; of Folders empty
};

class Changes {
 public:
  // REQUIRES: `place` outlives this.
  explicit Changes(const Place& place) : place_(place) {}

  // Watches every folder that there is now, and answers what is in them: a file that was finished
  // before its folder was watched gives no event. The folders that changed last come first, where
  // there are more than 4096.
  Result<Listing> watch();

  // What has happened since, in order, without waiting.
  std::vector<Change> read();

  void stop() { inotify_ = Descriptor(); }  // nothing happens any more

  int descriptor() const { return inotify_.get(); }  // readable when read() has something

 private:
  Result<void> watch_folder(const std::string& folder);
  bool is_link(const std::string& name) const;
  void take(const inotify_event& event, const char* name, std::vector<Change>& changes) const;

  const Place& place_;
  Descriptor inotify_;
  std::map<int, std::string> folders_;  // by watch
};

}  // namespace spotter::guard
