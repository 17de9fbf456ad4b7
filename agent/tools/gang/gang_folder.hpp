// A folder of this process's own, which goes with this object and the files that are in it.
#pragma once

#include <string>

#include "agent/io/descriptor.hpp"

namespace spotter::command {

class GangFolder {
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
  GangFolder(const GangFolder&) = delete;
  GangFolder& operator=(const GangFolder&) = delete;

  // Empty: it cannot be made.
  const std::string& path() const { return path_; }
  // Removes the files in it.
  void clear() const;

 private:
  std::string path_;
  io::Descriptor lock_;  // of a named one
};

}  // namespace spotter::command
