// A file that another process appends to, writes over or replaces, line by line. It belongs to the
// trainer, as whose user this process reads it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/io/files.hpp"

namespace spotter::follow {

inline constexpr std::size_t most_bytes_a_look = 1U << 20;

class GrowingFile {
 public:
  // `pattern` may have the wildcards of glob(7) in it: the file that was changed last is read.
  // `longest`: a line with more bytes is left out.
  GrowingFile(std::string pattern, std::size_t longest)
      : pattern_(std::move(pattern)), longest_(longest) {}

  struct News {
    bool there = false;   // there is such a file, and it can be read
    bool begins = false;  // the lines are the first of a file: of another, or one written over
    bool more = false;    // there may be more to read by now
    std::vector<std::string> lines;  // without their newlines
  };

  // Reads what is new, up to the last newline, and makes it durable.
  News look();
  // What stands behind the last newline.
  const std::string& rest() const { return partial_; }
  // Leaves that line out, however it goes on: its writer is dead.
  void drop_rest() {
    dropped_ = dropped_ || !partial_.empty();
    partial_.clear();
  }

 private:
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const Identity&) const = default;
  };
  std::string newest() const;
  io::Descriptor open(Identity& identity, std::uint64_t& bytes) const;
  bool is_same(const io::Descriptor& file) const;
  void take(std::string_view piece, News& news);

  std::string pattern_;
  std::size_t longest_;
  Identity identity_;
  bool begun_ = false;
  std::uint64_t at_ = 0;  // so much of it is read
  std::string head_;      // the first of these bytes
  std::string tail_;      // and the last
  std::string partial_;   // of a line that has no newline yet
  bool dropped_ = false;  // that line is left out: too long, or its writer's last
};

}  // namespace spotter::follow
