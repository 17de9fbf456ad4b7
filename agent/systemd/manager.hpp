// PID 1, asked for transient units: by its private socket, which is there before and after a bus
// is, and on a system that has none; else by the system's bus.
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
  // Fails where there is no systemd, or it is not for us to ask.
  static Result<std::unique_ptr<Manager>> connect();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager();

  enum class Refusal { Exists, Other };
  struct Refused {
    Refusal why = Refusal::Other;
    std::string message;
  };
  // Makes and starts a service; gives back the job. `command`: a path and its arguments.
  tl::expected<std::string, Refused> start(const std::string& unit,
                                           const std::vector<std::string>& command,
                                           const Settings& settings);
  // Waits until the job has ended, and says how ("done", "failed", "canceled", ...). Empty: before
  // that, `stop` became readable. "gone": PID 1 was not to be asked for a while, as when it is
  // replaced, and the unit is not there any more.
  std::string wait(const std::string& unit, const std::string& job, int stop);
  // Begins to end it. What of it does not end by a signal is killed, as its settings say.
  void stop(const std::string& unit);

  std::string system_state();  // "running", "stopping", ...; empty: not known

 private:
  explicit Manager(sd_bus* bus) : bus_(bus) {}
  static int on_removed(sd_bus_message* message, void* ended, void* error);
  bool listen();
  bool reconnect();
  bool is_loaded(const std::string& unit);

  sd_bus* bus_;
  sd_bus_slot* slot_ = nullptr;
  std::map<std::string, std::string> ended_;  // jobs, how
};

}  // namespace spotter::units
