// Disks that are as slow as EBS makes them: the files of volumes that were made of a snapshot, once
// more, in a FUSE file system that holds up each read as tests/world/cold.hpp says. A loop device
// has such a file behind it in the place of the volume's own; with direct I/O it has many requests
// in flight, as a disk has. The file system is a process of its own, spotter-emulator-cold: a
// process that dies while it writes to its own file system would never end.
#pragma once

#include <sys/types.h>

#include <ctime>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"
#include "tests/world/cold.hpp"

namespace spotter::emulator {

// The two processes share a file with this in it for each such volume, below DIR/cold-volumes; the
// file system is on DIR/cold, the volumes' own files are in DIR/volumes.
struct ColdVolume {
  world::ColdReads::Of is;
  double made = 0;  // seconds of the boot clock
};
inline double boot_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

inline std::string to_text(const ColdVolume& it) {
  std::ostringstream text;
  text.precision(17);
  text << it.is.request << ' ' << it.is.rate << ' ' << it.is.throughput << ' ' << it.is.mebibytes
       << ' ' << it.made << '\n';
  return text.str();
}

inline std::optional<ColdVolume> parse_cold_volume(const std::string& text) {
  ColdVolume it;
  std::istringstream words(text);
  if (!(words >> it.is.request >> it.is.rate >> it.is.throughput >> it.is.mebibytes >> it.made))
    return std::nullopt;
  return it;
}

class ColdFiles {
 public:
  // Fails where the program or FUSE is missing, and says which. `time_scale`: the world's seconds
  // in a real one.
  static Result<ColdFiles> mount(const std::filesystem::path& directory, double time_scale);
  ColdFiles(ColdFiles&& other) noexcept;
  ColdFiles& operator=(ColdFiles&&) = delete;
  ~ColdFiles();  // unmounts; whoever has a file open gets errors

  // From now on the volume's file is to be had here, too. It is made now.
  Result<void> add(const VolumeId& volume, world::ColdReads::Of is) const;
  void remove(const VolumeId& volume) const;
  // None: the volume is not slow.
  std::optional<std::filesystem::path> path_of(const VolumeId& volume) const;

 private:
  ColdFiles(std::filesystem::path directory, pid_t server)
      : directory_(std::move(directory)), server_(server) {}
  std::filesystem::path directory_;
  pid_t server_ = -1;
};

}  // namespace spotter::emulator
