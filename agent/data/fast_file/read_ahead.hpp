// Which readers read sequentially, and how far ahead of them it pays to fetch. Positions count
// through all files of a channel in the listing's order, so a process that reads small files in
// that order is sequential, too. No I/O; the caller passes the time.
//
// The window grows as long as a sequential reader has to wait, and no further: touching memory for
// the first time costs as much as receiving its bytes. A reader that jumps costs little. Several
// readers of one file are distinguished by their positions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spotter::fastfile {

class ReadAhead {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  struct Reader {
    std::uint64_t next = 0;     // where its next read is expected
    std::uint64_t run = 0;      // bytes that it has read without a gap
    std::uint64_t planned = 0;  // fetched for it up to there, or tried
    std::uint64_t window = 0;   // bytes beyond `next`
    std::uint64_t grown = 0;    // a read before it may wait: the window was smaller then
    Instant seen{};
  };

  // `room`: bytes of memory for all that is fetched ahead, of all readers together.
  explicit ReadAhead(std::uint64_t room) : room_(room) {}

  // Records a read of these bytes; `waits`: not all of them are in memory. Returns its reader, a
  // new one if none fits.
  const Reader& read(std::uint64_t begin, std::uint64_t bytes, bool waits, Instant now);

  // The most recently seen one comes first.
  std::vector<Reader>& readers() { return readers_; }

  // How many bytes beyond `next` are worth fetching: 0 for a reader that jumps.
  std::uint64_t window(const Reader& reader, Instant now) const;

 private:
  static bool reads_on(const Reader& reader) { return reader.run >= telling; }

  // The least run: reading a file's begin, with the kernel's read-ahead, is no sign yet.
  static constexpr std::uint64_t telling = 256U << 10;
  std::uint64_t room_;
  std::vector<Reader> readers_;
};

}  // namespace spotter::fastfile
