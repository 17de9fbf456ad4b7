// Work below a directory, reached by a handle that is opened once: with privileges, in a place that
// somebody without them can change. No step follows a symbolic link, leaves the directory or enters
// another mount (openat2(2): RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_XDEV; if a sandbox
// forbids that, RestrictSUIDSGID= of systemd.exec(5), each component is opened by itself), nothing
// is opened that could block, and what is given away or changed was opened and looked at first. A
// path that is replaced meanwhile changes nothing: the handle stays with the directory that was
// opened.
//
// `name` is a path relative to the directory; each failure is the errno of the call that failed:
// ELOOP or ENOTDIR if a link is in the way, EXDEV if the path leads out, EINVAL if a file is not a
// regular one.
#pragma once

#include <sys/stat.h>

#include <vector>

#include "agent/io/files.hpp"

namespace spotter::io {

class SafeDirectory {
 public:
  // The directory that `path` leads to, links included.
  // REQUIRES: only those with our privileges can change that path (a mount point, our own folder).
  static Result<SafeDirectory, std::error_code> open(const fs::path& path);

  // The folder of that name in a place where all may make names (/tmp, /dev/shm), if it is our own:
  // no link, our user's, and nobody else may write to it. EPERM: somebody else made it, or may
  // write to it. What is done by the handle stays ours, whatever becomes of the name.
  static Result<SafeDirectory, std::error_code> own(const fs::path& path);

  // The path by which it was named, for words to a person; no call takes it.
  const fs::path& path() const { return path_; }
  int descriptor() const { return directory_.get(); }  // O_PATH
  Result<struct stat, std::error_code> status() const;

  // O_NONBLOCK, O_CLOEXEC and O_NOCTTY are added to `flags`; "" is the directory itself.
  Result<Descriptor, std::error_code> open(const std::string& name, int flags,
                                           mode_t mode = 0) const;
  Result<SafeDirectory, std::error_code> folder(const std::string& name) const;
  // The folder that `name` lies in.
  Result<SafeDirectory, std::error_code> parent(const std::string& name) const;
  // A regular file, and no other.
  Result<Descriptor, std::error_code> file(const std::string& name, int flags,
                                           mode_t mode = 0) const;
  // Looks at the name itself, be it a link.
  Result<struct stat, std::error_code> look(const std::string& name) const;

  // The whole content. std::errc::file_too_large, before a byte is read, where it has more than
  // `limit` bytes.
  Result<std::string, std::error_code> read(const std::string& name, std::size_t limit) const;
  // Does the same as atomic_write() of files.hpp.
  Result<void, std::error_code> write(const std::string& name, std::string_view bytes,
                                      mode_t mode) const;

  // One folder, whose parent is there; one that exists is opened as it is. `ours`: whether this
  // call has made it.
  Result<SafeDirectory, std::error_code> make_folder(const std::string& name, mode_t mode,
                                                     bool* ours = nullptr) const;

  // Replaces what `to_name` is; both directories are durable afterwards.
  Result<void, std::error_code> rename(const std::string& name, const SafeDirectory& to,
                                       const std::string& to_name) const;
  // Another name of a file that was opened; the name must not exist.
  Result<void, std::error_code> link(const Descriptor& opened, const std::string& name) const;
  // The target of a symbolic link, as it says; and a new one, which replaces what `name` is.
  Result<std::string, std::error_code> read_link(const std::string& name) const;
  Result<void, std::error_code> make_link(const std::string& target, const std::string& name) const;
  Result<void, std::error_code> remove(const std::string& name) const;         // no folder
  Result<void, std::error_code> remove_folder(const std::string& name) const;  // an empty one

  // Without "." and ".."; as long as `take` answers true.
  Result<void, std::error_code> each_name(
      const std::function<bool(const std::string&)>& take) const;
  Result<std::vector<std::string>, std::error_code> names() const;  // sorted

  // The paths, relative to the directory, that `pattern` names (glob(7); FNM_PERIOD); at most
  // `limit` names are looked at. A last component without a wildcard need not be there.
  std::vector<std::string> matching(const std::string& pattern, std::size_t limit) const;

  // With the present rights (effective ids): may names be made and removed in the directory?
  bool may_change() const;
  Result<void, std::error_code> sync() const;
  // Gives the directory itself away, or changes its mode.
  Result<void, std::error_code> give(uid_t uid, gid_t gid) const;
  Result<void, std::error_code> change_mode(mode_t mode) const;

 private:
  void match(const std::string& pattern, const std::string& above, std::size_t& left,
             std::vector<std::string>& paths) const;
  SafeDirectory(Descriptor directory, fs::path path)
      : directory_(std::move(directory)), path_(std::move(path)) {}

  Descriptor directory_;
  fs::path path_;
};

// Gives what was opened, and nothing that has its name by now, to that owner.
Result<void, std::error_code> give(const Descriptor& opened, uid_t uid, gid_t gid);

std::string last_component(const std::string& name);

}  // namespace spotter::io
