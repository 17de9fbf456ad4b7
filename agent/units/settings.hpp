// Settings of our systemd units, each once, in the spelling of a unit file. The transient units
// and the unit file that `scripts/check unit` verifies come from the same tables.
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
  std::string name;                // the job's; of an experiment a colon and its index follow
  std::string run_directory;       // SPOTTER_RUN
  std::string home;                // the job's storage
  std::string user;                // the trainer's
  std::string users_home;          // of that user in passwd(5): read-only but for caches
  std::string owner;               // that user, UID:GID. Empty: root, whose home is writable
  std::chrono::seconds grace{0};   // how long the trainer may take to checkpoint and end
  std::string program;             // this one, absolute: what mounts and detaches the views
  std::string views_folder;        // below `home`, of all of them
  std::vector<std::string> views;  // of data, by name: mounted before the trainer starts
  bool refuses_metadata = false;   // the instance's metadata service, for all processes in it
  std::string memory_max, cpu_quota, cpu_weight;  // as in job.yaml; empty: none
};

// The limit of a trainer's processes and threads: enough for hundreds of data loaders with their
// libraries' threads (NumPy's start one a CPU), and half of the kernel's own limit stays free.
// TasksMax= of a systemd unit, else RLIMIT_NPROC.
std::uint64_t most_tasks();

std::string trainer_unit(const std::string& name);  // "spotter-trainer-NAME.service"

// The service of `spotter supervise` and the trainer below it. systemd stops it after the agent and
// before the storage. It may write to all folders that are not the system's, as far as the
// trainer's user may.
Settings of_trainer(const TrainerPlace& place);

// The service of one verb, with all of root's rights and without a sandbox, so that its mounts are
// visible to all. `leaves_processes`: a file system in user space outlives it.
Settings of_verb(std::chrono::milliseconds limit, bool leaves_processes);

// A service without a process, active until the system stops. It orders the mount that a verb
// makes: systemd learns of that from the kernel, so it has no order of its own.
std::string anchor_unit(const std::string& mount_point);
Settings of_anchor(const std::string& mount_point);

// The command that makes and starts such a service: systemd-run(1), which encodes the settings.
// `command`: a path and its arguments.
std::vector<std::string> to_start(const std::string& unit, const std::vector<std::string>& command,
                                  const Settings& settings);

// Both sections of a unit file, for `systemd-analyze`.
std::string to_unit_file(const Settings& settings, const std::string& command);

// True: systemd is to start this agent's processes, as its unit file says.
bool wanted();

}  // namespace spotter::units
