// What systemd is told of a unit: each setting once, in the words of a unit file. Of the same
// tables the transient units are made (manager.hpp) and the unit file whose exposure `scripts/check
// unit` watches.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace spotter::units {

struct Setting {
  std::string name;   // of systemd.exec(5), .kill(5), .service(5), .resource-control(5), .unit(5)
  std::string value;  // one path, or words
};
using Settings = std::vector<Setting>;

struct TrainerPlace {
  std::string name;               // the job's, and of a sweep the experiment's behind a dash
  std::string run_directory;      // SPOTTER_RUN
  std::string home;               // the job's storage
  std::string users_home;         // the trainer's user's
  std::chrono::seconds grace{0};  // what the trainer may take to checkpoint and end
  bool mounts = false;            // its user mounts views of data (fusermount3 is setuid)
  bool refuses_metadata = false;  // of the instance, to everybody in it
  std::string memory_max, cpu_quota, cpu_weight;  // as job.yaml has them; empty: none
};

// How many processes and threads a trainer may have: hundreds of data loaders with the threads of
// their libraries (those of NumPy start one a CPU) have room, and half of what the kernel has is
// left for the agent and the system. Below systemd it is TasksMax= of the unit, else RLIMIT_NPROC.
std::uint64_t most_tasks();

std::string trainer_unit(const std::string& name);  // "spotter-trainer-NAME.service"

// The service in which `spotter supervise` and the trainer below it run. systemd brings it down
// after the agent and before the storage. Whatever is not the system's may be written to, as far as
// the trainer's user may.
Settings of_trainer(const TrainerPlace& place);

// The service that does one piece of local work, with all of root's rights and outside of every
// sandbox, so that its mounts are everybody's. `leaves_processes`: a file system in user space
// outlives it.
Settings of_verb(std::chrono::milliseconds limit, bool leaves_processes);

// A service without a process, active until the system stops: what systemd knows of the mount that
// a verb makes comes from the kernel, and so lacks an order.
std::string anchor_unit(const std::string& mount_point);
Settings of_anchor(const std::string& mount_point);

// Both sections of a unit file, for `systemd-analyze`.
std::string to_unit_file(const Settings& settings, const std::string& command);

// Is it systemd's to start processes for this one? The unit file of the agent says so.
bool wanted();

}  // namespace spotter::units
