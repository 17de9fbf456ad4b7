#include "agent/tools/gang/gang_folder.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace spotter::command {

GangFolder::GangFolder(const std::string& name) {
  const char* set = std::getenv("TMPDIR");
  path_ = (set != nullptr && *set != 0 ? set : "/tmp") + ("/spotter-" + name + "-XXXXXX");
  if (::mkdtemp(path_.data()) == nullptr) path_.clear();
}

GangFolder::GangFolder(const Named& named) {
  ::mkdir(named.path.c_str(), 0700);
  lock_ =
      io::Descriptor(::open(named.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat seen {};
  const bool ours = lock_ && ::fstat(lock_.get(), &seen) == 0 && seen.st_uid == ::geteuid();
  if (!ours || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return;
  path_ = named.path;
  clear();
}

GangFolder::~GangFolder() {
  clear();
  if (!path_.empty()) ::rmdir(path_.c_str());
}

void GangFolder::clear() const {
  std::error_code error;
  if (path_.empty()) return;
  for (std::filesystem::directory_iterator it(path_, error), end; !error && it != end;
       it.increment(error))
    ::unlink(it->path().c_str());
}

}  // namespace spotter::command
