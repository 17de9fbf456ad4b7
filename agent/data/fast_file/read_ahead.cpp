#include "agent/data/fast_file/read_ahead.hpp"

#include <algorithm>

namespace spotter::fastfile {
namespace {

// The kernel splits its own read-ahead into several requests, which may arrive out of order, and
// leaves out what it has.
constexpr std::uint64_t tolerance = 512U << 10;
constexpr std::size_t most_readers = 64;
constexpr std::uint64_t least_window = 2U << 20;
constexpr std::uint64_t growth = 2;
constexpr std::chrono::seconds forgotten{10};

}  // namespace

const ReadAhead::Reader& ReadAhead::read(std::uint64_t begin, std::uint64_t bytes, bool waits,
                                         Instant now) {
  const std::uint64_t end = begin + bytes;
  const auto fits = [&](const Reader& reader) {
    return begin + tolerance >= reader.next && begin <= reader.next + tolerance;
  };
  // Takes the nearest, as two readers may be close to one another.
  auto found = readers_.end();
  const auto distance = [&](const Reader& reader) {
    return std::max(begin, reader.next) - std::min(begin, reader.next);
  };
  for (auto each = readers_.begin(); each != readers_.end(); ++each) {
    if (fits(*each) && (found == readers_.end() || distance(*each) < distance(*found)))
      found = each;
  }
  if (found == readers_.end()) {
    if (readers_.size() >= most_readers) readers_.pop_back();
    found = readers_.insert(readers_.end(), {.next = begin, .planned = end});
  }
  if (end > found->next) {
    found->run += end - std::max(begin, found->next);
    found->next = end;
  }
  found->planned = std::max(found->planned, found->next);
  if (reads_on(*found) && waits && begin >= found->grown) {
    found->window = std::min(std::max(growth * found->window, least_window), room_);
    found->grown = found->next + found->window;
  }
  found->seen = now;
  std::rotate(readers_.begin(), found, found + 1);
  return readers_.front();
}

std::uint64_t ReadAhead::window(const Reader& reader, Instant now) const {
  if (!reads_on(reader)) return 0;
  const auto alive = static_cast<std::uint64_t>(std::ranges::count_if(
      readers_, [&](const Reader& each) { return reads_on(each) && now - each.seen < forgotten; }));
  const std::uint64_t most = room_ / std::max<std::uint64_t>(1, alive);
  return std::min(most, std::max(least_window, reader.window));
}

}  // namespace spotter::fastfile
