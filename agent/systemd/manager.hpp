// Asks PID 1 for transient units: by its private socket, which exists before, after and without a
// bus; else by the system bus.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/systemd/settings.hpp"

struct sd_bus;
struct sd_bus_message;
struct sd_bus_slot;

namespace spotter::units {

class Manager {
 public:
  // Fails without systemd, or without permission to use it.
  static Result<std::unique_ptr<Manager>> connect();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager();

  enum class Refusal { Exists, Other };
  struct Refused {
    Refusal why = Refusal::Other;
    std::string message;
  };
  // Makes and starts a service; returns its job. `command`: a path and its arguments.
  Result<std::string, Refused> start(const std::string& unit,
                                     const std::vector<std::string>& command,
                                     const Settings& settings);
  // Waits until the job has ended, and returns how ("done", "failed", "canceled", ...). Empty:
  // `stop` became readable first. "gone": PID 1 did not answer for a while, as when it is replaced,
  // and the unit no longer exists.
  std::string wait(const std::string& unit, const std::string& job, int stop);
  // Begins to stop the unit. Its settings say how processes are killed that ignore the signal.
  void stop(const std::string& unit);

  std::string system_state();  // "running", "stopping", ...; empty: unknown

 private:
  explicit Manager(sd_bus* bus) : bus_(bus) {}
  static int on_removed(sd_bus_message* message, void* ended, void* error);
  bool listen();
  bool reconnect();
  bool is_loaded(const std::string& unit);

  sd_bus* bus_;
  sd_bus_slot* slot_ = nullptr;
  std::map<std::string, std::string> ended_;  // job -> how it ended
};

}  // namespace spotter::units
