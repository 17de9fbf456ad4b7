#include "agent/guard/lock.hpp"

#include <fcntl.h>

#include <thread>

#include "agent/supervise/run_directory.hpp"

namespace spotter::guard {
namespace {

constexpr std::chrono::milliseconds between_looks(100);

Result<Descriptor, std::error_code> open_lock(const Place& place, const char* name) {
  const auto own = place.own();
  if (!own) return tl::unexpected(own.error());
  return own->file(name, O_RDWR | O_CREAT, supervise::private_mode);
}

}  // namespace

Result<Descriptor> lock_as_guard(const Place& place, std::chrono::milliseconds patience) {
  auto mine = open_lock(place, guards_lock);
  Descriptor held;
  if (mine && supervise::try_lock(*mine)) held = *std::move(mine);
  const auto other = open_lock(place, persons_lock);
  for (auto left = patience; other && supervise::is_locked(*other); left -= between_looks) {
    if (left <= std::chrono::milliseconds(0))
      return failure("`spotter checkpoints` is at work in " + place.where().mount.string());
    std::this_thread::sleep_for(between_looks);
  }
  return held;
}

Result<Descriptor> lock_as_person(const Place& place) {
  const std::string home = place.where().mount.string();
  auto mine = open_lock(place, persons_lock);
  const auto guards = mine ? open_lock(place, guards_lock) : tl::unexpected(mine.error());
  if (!guards) {
    const bool rights = guards.error() == std::errc::permission_denied;
    return failure("cannot lock the checkpoints of " + home + ": " + guards.error().message() +
                   (rights ? "; run it as whoever owns " + place.shown_own("").string() : ""));
  }
  if (!supervise::try_lock(*mine)) {
    return failure(supervise::is_locked(*mine)
                       ? "another `spotter checkpoints` is at work in " + home
                       : "the file system of " + home +
                             " has no locks: whether a guard is at work there is not known");
  }
  if (supervise::is_locked(*guards))
    return failure("a guard watches the checkpoints of " + home +
                   ": stop its trainer first (`spotter status` shows the job)");
  return *std::move(mine);
}

}  // namespace spotter::guard
