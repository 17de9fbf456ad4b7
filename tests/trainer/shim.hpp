// The calls by which this very program changes a file system, seen before they happen and after:
// libc's own are replaced for the whole program that links this. So a test can record them, or let
// one of them fail, and the library under test has no seam for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace spotter::test {

struct Call {
  enum class Kind {
    Create,
    MakeDirectory,
    Write,
    Resize,    // to at least this size
    Truncate,  // to exactly this size
    Punch,     // a hole
    Mode,      // permissions
    Sync,
    Link,
    Unlink,
    Rename,
    Exchange
  };
  Kind kind;
  // The call's object: a file or directory by its number, or a name in a directory.
  std::uint64_t node = 0;
  std::uint64_t directory = 0;
  std::string name;
  std::string other_name = {};  // of Rename, Exchange: in the same directory
  std::uint64_t offset = 0;     // of Write; of Resize, Truncate: the size
  std::string_view bytes = {};
};

// Numbers of files and directories are given again for each that is made: the kernel's are used
// again.
struct Shim {
  // Before: 0, or the errno with which the call is to fail, not done. Both run under one lock, from
  // whatever thread.
  std::function<int(const Call&)> before;
  std::function<void(const Call&)> after;
  // Before a Write: how many of its bytes are written; empty: all.
  std::function<std::size_t(const Call&)> shorten;
  // Before a file or directory that is there is opened: 0, or the errno with which that fails.
  std::function<int(std::string_view path)> opening;

  // From now on, for what lies below `directory` (number 0). One at a time.
  void install(const std::string& directory);
  // Gives numbers to what is there by now, too. REQUIRES: it is installed.
  void follow(const std::string& directory);
  void remove();
};

}  // namespace spotter::test
