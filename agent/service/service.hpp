// A process as a service: alone in its run directory, and known to systemd where that started it.
#pragma once

#include <string>

#include "agent/io/asio.hpp"

namespace spotter {

class Service {
 public:
  explicit Service(asio::io_context& context) : watchdog_(context) {}

  // Makes the run directory, and takes its lock until the process ends. False, and said why, when
  // it cannot, or another agent is at work there.
  bool take(const std::string& run_directory);
  // Is an agent at work there?
  static bool is_taken(const std::string& run_directory);
  // READY=1, and the watchdog is fed from now on.
  void ready();

 private:
  void feed(std::chrono::milliseconds every);

  asio::steady_timer watchdog_;
};

}  // namespace spotter
