// The emulator's folder DIR: one emulator at a time, and what an earlier one left there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "agent/base/result.hpp"

namespace spotter::emulator {

struct Announcement {       // DIR/emulator.json
  std::string api;          // http://127.0.0.1:4566
  std::string metadata;     // 127.0.0.1:1338
  std::string mode;         // root | user
  std::string certificate;  // of the API, when it speaks TLS
  std::string region;       // the first zone's
  pid_t pid = 0;
};

struct Keys {  // DIR/credentials, as AWS's shared file has them
  std::string access_key;
  std::string secret;
};

class Directory {
 public:
  // Makes DIR if need be, takes its lock (released by the kernel however this process ends),
  // removes the volumes, snapshots, instances and loop devices of an earlier run. Fails when an
  // emulator serves DIR, or when a loop device there is in use.
  static Result<Directory> open(const std::filesystem::path& path);
  Directory(Directory&& other) noexcept;
  Directory& operator=(Directory&&) = delete;
  ~Directory();  // takes the announcement and the keys away; the rest stays, to be looked at

  const std::filesystem::path& path() const { return path_; }  // absolute
  // Removes the volumes, snapshots and instances, as open() does; their folders are there then.
  Result<void> clear() const;
  // For whoever has started this process, and root, alone.
  Result<void> publish(const Keys& keys) const;
  Result<void> announce(const Announcement& announcement) const;

 private:
  Directory(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_ = -1;
};

// `serve`'s without --directory: $XDG_STATE_HOME/spotter-emulator, this user's folder for state;
// root's is in /var/lib. Empty: neither XDG_STATE_HOME nor HOME is set.
std::filesystem::path default_directory();
// A command looks for an emulator here, if one is announced here, else there.
std::filesystem::path nearest_directory();
Result<Announcement> read_announcement(const std::filesystem::path& directory);
Result<Keys> read_keys(const std::filesystem::path& directory);

}  // namespace spotter::emulator
