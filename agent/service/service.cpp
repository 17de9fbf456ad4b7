#include "agent/service/service.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/io/files.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter {

bool Service::take(const std::string& run_directory) {
  const supervise::RunDirectory directory(run_directory);
  if (const auto made = io::make_directories(run_directory, supervise::directory_mode); !made) {
    spdlog::error("cannot make {}: {}. Run as root, or set SPOTTER_RUN", run_directory,
                  made.error().message());
    return false;
  }
  if (const auto ours = directory.make_ours(); !ours) {
    spdlog::error("{}", ours.error().message);
    return false;
  }
  // A second agent would receive the trainer's datagrams, and unmount what the first one uses.
  auto lock = directory.take_agents_lock();
  if (!lock) {
    spdlog::error("{}", lock.error().message);
    return false;
  }
  if (lock->release() >= 0) return true;
  spdlog::error(
      "another agent is at work in {}: one instance runs one agent. Wait for its end, or end it",
      run_directory);
  return false;
}

bool Service::is_taken(const std::string& run_directory) {
  const supervise::RunDirectory directory(run_directory);
  if (::access(directory.file("agent.lock").c_str(), F_OK) != 0) return false;
  const auto lock = directory.take_agents_lock();
  return lock && !*lock;
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
