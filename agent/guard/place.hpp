// The files of a trainer that knows nothing of us, reached below the storage's mount without ever
// following a symbolic link or leaving the file system: we may be root, and what lies there is the
// trainer's own.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/wire/result.hpp"
#include "trainer/checkpoint/files.hpp"

namespace spotter::guard {

using checkpoint::Descriptor;

// Where the files are, as job.yaml says it.
struct Where {
  std::filesystem::path mount;  // the storage's mount point
  std::string directory;        // of the checkpoints, relative to it
  std::string files;            // patterns of file names (fnmatch(3)), separated by spaces
};

bool matches(const std::string& patterns, const std::string& path);  // by the last component

struct Found {
  std::string name;  // relative to the directory
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
};
Found found(const std::string& name, const struct stat& status);

class Place {
 public:
  // Fails when there is no such mount point.
  static Result<Place> open(Where where);

  const Where& where() const { return where_; }
  std::string shown(const std::string& name) const { return where_.directory + "/" + name; }

  // `name` is relative to the directory; "": the directory itself. Not open: errno says why.
  Descriptor open(const std::string& name, int flags) const;
  Descriptor open_parent(const std::string& name) const;

  // Every matching regular file, in any subfolder, sorted by name; `folders` (if given) gets every
  // folder, "" first. A directory that is not there has none.
  Result<std::vector<Found>> list(std::vector<std::string>* folders = nullptr) const;

  // <mount>/.spotter/NAME, made if it is missing: ours, on the same file system.
  std::filesystem::path own(const std::string& name) const;
  Result<void> make_own(const std::string& name) const;

 private:
  Result<void> walk(const std::string& folder, int depth, std::vector<Found>& files,
                    std::vector<std::string>* folders) const;

  Where where_;
  Descriptor mount_;
};

// Whether an open that failed with `code` says that there is no such file in the place: gone, or
// behind a link or another mount. All other codes say nothing about it.
bool is_out_of_place(int code);

std::string last_component(const std::string& path);

}  // namespace spotter::guard
