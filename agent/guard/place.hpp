// The files of a trainer that knows nothing of us, reached below the storage's mount without ever
// following a symbolic link or leaving the file system: we may be root, and what lies there is the
// trainer's own.
#pragma once

#include <chrono>
#include <set>

#include "agent/base/result.hpp"
#include "agent/io/safe_directory.hpp"

namespace spotter::guard {

using io::Descriptor;
using io::last_component;
using io::SafeDirectory;

// The location of the checkpoints, as job.yaml says it.
struct Where {
  std::filesystem::path mount;  // the storage's mount point
  std::string directory;        // of the checkpoints, relative to it
  // Patterns (fnmatch(3)), separated by spaces, of the names of files that are checkpoints, in any
  // folder below the directory.
  std::string files;
  // All is done with the rights of the trainer's user: nothing of ours is on a share.
  bool as_trainer = false;
  // In the place of `files`: patterns of the names of folders directly below the directory, each of
  // which is one checkpoint. Neither: all that is there (Listing::left_alone).
  std::string folders;
  bool of_all() const { return files.empty() && folders.empty(); }
  // The trainer's log of metrics, relative to the mount; its components may be patterns of glob(7).
  // "": none.
  std::string log;
};

bool matches(const std::string& patterns, const std::string& path);  // by the last component

struct Found {
  std::string name;  // relative to the directory
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t changed_ns = 0;  // ctime: of any write, whatever time it gives the file, or new name
  friend bool operator==(const Found&, const Found&) = default;
};
Found found(const std::string& name, const struct stat& status);

enum class Role : std::uint8_t {
  None,
  // Above the checkpoints: a small file, or a link, that may name one, or be written in each save,
  // as `step.txt` is.
  Companion,
  Member,  // of a checkpoint
};

struct Member : Found {
  Role role = Role::Member;
  std::string link;  // of a symbolic link: where it leads
};

// The content of the directory, names of any bytes. Neither FIFO nor device nor socket is listed.
struct Listing {
  std::vector<Member> members;       // sorted by name
  std::vector<std::string> folders;  // in which a member may appear; "" first
  std::set<std::string> whole;       // folders of which every file is a member
  std::set<std::string> above;       // those in which one of these lies
  // Why nothing is done here, though no pattern was named: libspotter saves there and takes care of
  // it, or it is more than a directory of checkpoints. "": it is watched.
  std::string left_alone;

  const Member* find(std::string_view name) const;
};

inline constexpr std::uint64_t companion_limit = 16U << 10;  // bytes; of a companion
inline constexpr std::size_t logs_limit = 1000;              // that Where::log names
// Words of why is_trainers() refuses a file.
inline constexpr std::string_view has_other_name =
    "has another name elsewhere, and another owner than its folder";

class Place {
 public:
  // Fails when there is no such mount point.
  static Result<Place> open(Where where);

  const Where& where() const { return where_; }
  std::string shown(const std::string& name) const { return where_.directory + "/" + name; }

  // `name` is relative to the directory; "": the directory itself. On failure errno says why.
  Descriptor open(const std::string& name, int flags) const;
  Result<SafeDirectory, std::error_code> parent(const std::string& name) const;
  Result<struct stat, std::error_code> look(const std::string& name) const;

  // A directory that is not there has nothing. Fails where a part of it cannot be looked at, and
  // for more than 100,000 files that patterns name: an incomplete list is none.
  Result<Listing> list() const;
  // The role of a name that list() did not find yet, or a moment ago.
  Role role(const std::string& name, const Listing& listing) const;
  Result<SafeDirectory, std::error_code> folder(
      const std::string& name) const;  // "": the directory itself

  // The patterns of what is kept, as job.yaml says it.
  std::string patterns() const;

  // Makes the rows that the trainer's log has by now durable, and the names on the way to it. A
  // file that cannot be reached, or synced, stays as durable as it was.
  void sync_log() const;

  // <mount>/.spotter. Fails, where we are root and do not act as the trainer, when it is not
  // root's: then somebody else put it there. std::errc::no_such_file_or_directory: there is none.
  Result<SafeDirectory, std::error_code> own() const;
  // A folder in it, ours as well, made if it is missing.
  Result<SafeDirectory, std::error_code> own(const std::string& name) const;
  std::filesystem::path shown_own(const std::string& name) const;  // for words

  // Root does not touch a file that has another name elsewhere, unless whoever owns the directory
  // owns it: the trainer can give any file on the storage a name here (link(2)).
  bool is_trainers(const struct stat& status) const;

 private:
  explicit Place(Where where, SafeDirectory mount)
      : where_(std::move(where)), mount_(std::move(mount)) {}
  Result<void> walk(const std::string& folder, int depth, Listing& into) const;
  bool is_root() const;

  Where where_;
  SafeDirectory mount_;
};

// libspotter's lock, or the last file of one of its checkpoints (trainer/library/checkpoint.hpp).
bool is_of_libspotter(const std::string& name);
inline constexpr const char* libspotter_saves = "libspotter saves there";

// Those that `name` lies in, the inner ones first, without the directory itself.
std::vector<std::string> folders_above(const std::string& name);

// Whether an open that failed with `code` says that there is no such file in the place: gone, or
// behind a link or another mount. All other codes say nothing about it.
bool is_out_of_place(int code);

// Says who is at work in a storage's checkpoints: a guard, from its start to its end, or a person's
// command, for moments. Locks of open file descriptions (fcntl(2)), in files that only the owner of
// `.spotter` may open: the kernel releases them however their holder ends.

inline constexpr const char* guards_lock = "guard.lock";
inline constexpr const char* persons_lock = "person.lock";

// The guard's lock, until it is closed. The descriptor is not open if the file system has no locks,
// or still has that of a machine that was lost: a guard is at work all the same. Fails if a
// person's command is at work for longer than `patience`.
Result<Descriptor> lock_as_guard(const Place& place, std::chrono::milliseconds patience);

// The lock of a person's command, until it is closed. Fails, with a sentence for that person, while
// a guard or another command is at work, and if that cannot be known.
Result<Descriptor> lock_as_person(const Place& place);

}  // namespace spotter::guard
