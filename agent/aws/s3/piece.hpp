// Chooses the size of a large read's pieces. S3 advises 8 to 16 MB, as each request waits for its
// first byte; small pieces do as well where an answer comes at once, begin earlier, and find their
// memory in the processor's caches. No clock: the times are handed in.
#pragma once

#include <chrono>
#include <cstddef>

namespace spotter::s3 {

inline constexpr std::size_t least_piece = 1U << 20;
inline constexpr std::size_t piece_bytes = 8U << 20;  // at most

class Piece {
 public:
  using Duration = std::chrono::duration<double>;

  // The bytes that the next request should ask for; the least until something was measured.
  std::size_t bytes() const { return bytes_; }

  // An answer's body of so many bytes has come: `waited` for its first, `lasted` from there to its
  // last. Small ones, which come with their first byte, tell nothing of the rate.
  void measured(std::size_t bytes, Duration waited, Duration lasted);

 private:
  std::size_t bytes_ = least_piece;
  Duration waited_{0};  // the least, of late: the others also waited for one another
  double rate_ = 0;     // bytes a second of one connection, smoothed
};

}  // namespace spotter::s3
