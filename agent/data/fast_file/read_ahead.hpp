// Who reads on, and how far ahead of them it pays to fetch. Positions are in all files of a channel
// one after the other, in the listing's order: whoever reads small files in that order reads on,
// too. No I/O; the time is handed in.
//
// What is fetched ahead grows as long as a reader that reads on has to wait: memory that is touched
// for the first time costs as much as to receive its bytes. A reader that jumps costs little.
// Several readers of one file are told apart by where they are.
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
    std::uint64_t planned = 0;  // up to there it was fetched for it, or tried
    std::uint64_t window = 0;   // bytes beyond `next`
    std::uint64_t grown = 0;    // up to there it may wait: the window was smaller before
    Instant seen{};
  };

  // `room`: bytes of memory for what is fetched ahead of all readers together.
  explicit ReadAhead(std::uint64_t room) : room_(room) {}

  // A read of these bytes came; `waits`: not all of them are there. The reader whose it is, or a
  // new one.
  const Reader& read(std::uint64_t begin, std::uint64_t bytes, bool waits, Instant now);

  // The one that was seen last comes first.
  std::vector<Reader>& readers() { return readers_; }

  // So many bytes beyond `next` are worth it: 0 for one that jumps.
  std::uint64_t window(const Reader& reader, Instant now) const;

 private:
  static bool reads_on(const Reader& reader) { return reader.run >= telling; }

  // Of a run: a file's begin and what the kernel reads for it is no sign yet.
  static constexpr std::uint64_t telling = 256U << 10;
  std::uint64_t room_;
  std::vector<Reader> readers_;
};

}  // namespace spotter::fastfile
