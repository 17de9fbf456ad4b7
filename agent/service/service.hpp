// A process as a service: the only one in its run directory, and known to systemd if that started
// it.
#pragma once

#include <string>

#include "agent/io/asio.hpp"

namespace spotter {

class Service {
 public:
  explicit Service(asio::io_context& context) : watchdog_(context) {}

  // Makes the run directory, and holds its lock until the process ends. False: it cannot, or
  // another agent runs there; the reason was logged.
  bool take(const std::string& run_directory);
  // Does an agent run there?
  static bool is_taken(const std::string& run_directory);
  // Sends READY=1, and feeds the watchdog from now on.
  void ready();

 private:
  void feed(std::chrono::milliseconds every);

  asio::steady_timer watchdog_;
};

}  // namespace spotter
