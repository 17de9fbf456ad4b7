// The number of requests at once: found by trying, as the best one depends on the network, the
// server and the size of the objects. No clock: the time is handed in.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace spotter::s3 {

class Window {
 public:
  using Instant = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  struct Limits {
    std::size_t first = 4;  // it doubles soon where that gives more
    std::size_t most = 256;
    Duration period = std::chrono::milliseconds(100);  // of a rate
    // One of twice the width that gained less than this is not worth its connections, ...
    double worth = 1.1;
    // ... after so many periods: a distant server's first answers take some.
    int patience = 3;
    // The time for which a width that was found is kept before the next one is tried.
    Duration content = std::chrono::seconds(4);
  };

  explicit Window(Limits limits) : limits_(limits), width_(limits.first) {}

  std::size_t width() const { return width_; }

  // So many bytes have come. `busy`: requests under way; `more`: others wait for a place. Only what
  // was measured while the window was full and more was wanted says anything about the window.
  void moved(std::uint64_t bytes, std::size_t busy, bool more, Instant now);

  // More can be carried than before: a width that was found is tried again.
  void retry(Instant now);

  // S3 said SlowDown: half of it, at most once a second, as several answers tell of one moment.
  void throttled(Instant now);

 private:
  void close_period(double rate, Instant now);
  void try_again();

  Limits limits_;
  std::size_t width_;
  std::size_t width_before_ = 0;  // that of best_; 0: nothing was measured yet
  double rate_before_ = 0;        // bytes a second
  bool trying_ = true;
  int doubts_ = 0;
  Instant begin_{};
  Instant settled_{};
  Instant throttled_{};
  std::uint64_t bytes_ = 0;
};

// The most that one request of a large read asks for: S3 advises 8 to 16 MB, as each request waits
// for its first byte.
inline constexpr std::size_t piece_bytes = 8U << 20;

}  // namespace spotter::s3
