// Asks PID 1 about units: by its private socket, which exists before, after and without a bus; else
// by the system bus.
#pragma once

#include <map>
#include <memory>

#include "agent/base/result.hpp"

struct sd_bus;
struct sd_bus_message;
struct sd_bus_slot;

namespace spotter::units {

class Manager : Pinned {
 public:
  // Fails without systemd, or without permission to use it.
  static Result<std::unique_ptr<Manager>> connect();
  ~Manager();

  bool is_loaded(const std::string& unit);  // false also where PID 1 does not answer
  // Waits until the unit, which has just been made, has no job any more, and returns how the job
  // ended ("done", "failed", "canceled", ...; "gone": that was missed, as when PID 1 is replaced,
  // and the unit no longer exists). Empty: `stop` became readable first.
  std::string wait(const std::string& unit, int stop);
  // Begins to stop the unit. Its settings say how processes are killed that ignore the signal.
  void stop(const std::string& unit);

  // Begins to stop the system, with all units in their order; false: refused.
  bool power_off();
  std::string system_state();  // "running", "stopping", ...; empty: unknown

 private:
  explicit Manager(sd_bus* bus) : bus_(bus) {}
  static int on_removed(sd_bus_message* message, void* ended, void* error);
  bool listen();
  bool reconnect();
  enum class Look { Absent, HasJob, Settled, Unknown };
  Look look(const std::string& unit);

  sd_bus* bus_;
  sd_bus_slot* slot_ = nullptr;
  std::map<std::string, std::string> ended_;  // unit -> how its last job ended
};

}  // namespace spotter::units
