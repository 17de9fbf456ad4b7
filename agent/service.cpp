#include "agent/service.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/io/files.hpp"

namespace spotter {
namespace {

std::string lock_of(const std::string& run_directory) { return run_directory + "/agent.lock"; }

}  // namespace

bool Service::take(const std::string& run_directory) {
  if (const auto made = io::make_directories(run_directory, 0755); !made) {
    spdlog::error("cannot make {}: {}. Run as root, or set SPOTTER_RUN", run_directory,
                  made.error().message());
    return false;
  }
  // A second agent would take the trainer's datagrams and unmount under the first.
  const int lock = ::open(lock_of(run_directory).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) == 0) return true;
  if (lock >= 0) ::close(lock);
  spdlog::error("another agent is at work in {}: one instance runs one agent", run_directory);
  return false;
}

bool Service::is_taken(const std::string& run_directory) {
  const int lock = ::open(lock_of(run_directory).c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0) return false;
  const bool taken = ::flock(lock, LOCK_EX | LOCK_NB) != 0;
  ::close(lock);
  return taken;
}

void Service::ready() {
  sd_notify(0, "READY=1");
  std::uint64_t microseconds = 0;
  if (sd_watchdog_enabled(0, &microseconds) > 0) {
    feed(std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::microseconds(microseconds / 2)));
  }
}

void Service::feed(std::chrono::milliseconds every) {
  sd_notify(0, "WATCHDOG=1");
  watchdog_.expires_after(every);
  watchdog_.async_wait([this, every](boost::system::error_code error) {
    if (!error) feed(every);
  });
}

}  // namespace spotter
