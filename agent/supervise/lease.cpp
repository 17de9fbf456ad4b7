#include "agent/supervise/lease.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace spotter::supervise {

Result<void> write_lease(const std::string& path, std::int64_t until_boottime_ms) {
  const auto slash = path.rfind('/');
  const RunDirectory directory(path.substr(0, slash));
  return directory.write(path.substr(slash + 1), std::to_string(until_boottime_ms) + "\n");
}

Lease::Lease(std::string path)
    : path_(std::move(path)),
      timer_(path_.empty() ? -1 : timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  renew();
}

std::int64_t Lease::until() const {
  if (path_.empty()) return std::numeric_limits<std::int64_t>::max();
  std::int64_t until = 0;
  std::ifstream(path_) >> until;
  return until;
}

bool Lease::is_over() const { return boottime_milliseconds() >= until(); }

void Lease::renew() {
  if (!timer_) return;
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = read(timer_.get(), &ignored, sizeof ignored);
  const std::int64_t next = std::max(until(), boottime_milliseconds() + 1000);
  itimerspec when{};
  when.it_value.tv_sec = next / 1000;
  when.it_value.tv_nsec = next % 1000 * 1'000'000;
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace spotter::supervise
