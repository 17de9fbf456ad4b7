#include "agent/units/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace spotter::units {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A shutdown stops the agent first, which asks the trainer to end and waits for it.
constexpr const char* agent_unit = "spotter.service";

const Setting kTrainer[] = {
    {"Type", "notify"},
    {"NotifyAccess", "exec"},  // the supervisor, and what mounts views before it
    // The supervisor asks the trainer to end, as job.yaml says, and waits for it.
    {"KillMode", "mixed"},
    {"TimeoutStartSec", "60"},
    {"SyslogIdentifier", "spotter-trainer"},
    // The supervisor is killed last, as it has to report that the trainer ran out of memory.
    {"OOMPolicy", "continue"},
    {"OOMScoreAdjust", "-500"},
    {"ManagedOOMPreference", "omit"},  // systemd-oomd would kill it, too, and record nothing
    // Data loaders need files and pinned memory.
    {"LimitNOFILE", "1048576"},
    {"LimitMEMLOCK", "infinity"},
    // The supervisor has the trainer's secrets; a trainer that wants core files raises its own.
    {"LimitCORE", "0:infinity"},
    // The supervisor becomes the trainer's user, signals its processes, and makes its log file; the
    // guard copies its checkpoints. The trainer itself has no capability.
    {"CapabilityBoundingSet",
     "CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL CAP_SETGID CAP_SETUID"},
    {"NoNewPrivileges", "yes"},
    {"ProtectSystem", "strict"},
    {"PrivateMounts", "yes"},
    {"PrivateTmp", "yes"},
    {"ProtectClock", "yes"},
    {"ProtectControlGroups", "yes"},
    {"ProtectHostname", "yes"},
    {"ProtectKernelLogs", "yes"},
    {"ProtectKernelModules", "yes"},
    {"ProtectKernelTunables", "yes"},
    {"RestrictNamespaces", "yes"},
    {"RestrictRealtime", "yes"},
    {"RestrictSUIDSGID", "yes"},
    {"RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6 AF_NETLINK"},
    {"LockPersonality", "yes"},
    {"KeyringMode", "private"},
    {"UMask", "0077"},  // the supervisor's own; the trainer gets the usual one
    {"SystemCallArchitectures", "native"},
    // MemoryDenyWriteExecute= is missing: programs that compile while they train need such memory.
    // PyTorch shares tensors between its processes by pidfd_getfd(2).
    {"SystemCallFilter", "@system-service pidfd_getfd"},
    {"SystemCallErrorNumber", "EPERM"},
    // GPUs and their interconnects: of NVIDIA and AMD; Trainium, Gaudi, EFA.
    {"DevicePolicy", "closed"},
    {"DeviceAllow", "char-nvidia* rw"},
    {"DeviceAllow", "char-gdrdrv rw"},
    {"DeviceAllow", "char-drm rw"},
    {"DeviceAllow", "char-kfd rw"},
    {"DeviceAllow", "char-neuron* rw"},
    {"DeviceAllow", "char-accel rw"},
    {"DeviceAllow", "char-habanalabs rw"},
    {"DeviceAllow", "char-infiniband* rw"},
    {"DeviceAllow", "/dev/fuse rw"},  // for root's mounts of views; who cannot mount gains nothing
};

const Setting kVerb[] = {
    {"Type", "oneshot"},
    {"SyslogIdentifier", "spotter"},
    // Otherwise PID 1 would log each start and end.
    {"LogLevelMax", "warning"},
    {"SuccessExitStatus", "1 2"},
    {"TimeoutStopSec", "1"},
    {"OOMPolicy", "continue"},
    {"LimitCORE", "0"},  // the token of the code, say
};

// Top-level folders of the system, or with settings of their own.
constexpr std::string_view kSystem[] = {"bin",   "boot", "dev",        "efi", "etc",  "lib",
                                        "lib32", "proc", "lost+found", "run", "sbin", "sys",
                                        "lib64", "usr",  "libx32",     "tmp", "home", "root"};

// Below the home of a user who logs in: what frameworks keep between runs, and no shell, service or
// session reads to start a program.
constexpr std::string_view kCaches[] = {
    ".cache", ".keras", ".nv", ".torch", ".triton", ".config/matplotlib", ".config/Ultralytics"};

// How a process of the trainer's user would have others start programs as that user or as root,
// outside of this unit: sshd on loopback by its keys, its own service manager, process 1's bus,
// containers.
constexpr std::string_view kWaysOut[] = {"/run/user",
                                         "/run/dbus",
                                         "/run/docker.sock",
                                         "/run/podman",
                                         "/run/containerd",
                                         "/run/incus",
                                         "/var/lib/lxd/unix.socket",
                                         "/run/snapd.socket",
                                         "/run/libvirt",
                                         "/var/spool/cron",
                                         "/var/spool/at",
                                         "/run/screen",
                                         "/var/snap/lxd/common"};

bool is_systems(const std::string& name) {
  for (const std::string_view each : kSystem)
    if (name == each) return true;
  return false;
}

// Quotes a word in systemd's syntax: systemd.syntax(7).
std::string quoted(const std::string& value) {
  std::string word = "\"";
  for (const char each : value) {
    if (each == '"' || each == '\\') word += '\\';
    word += each;
  }
  return word + "\"";
}

void add_writable(Settings& settings, const TrainerPlace& place) {
  std::vector<std::string> added;
  // Leaves out paths below another: PID 1 would look them up as root, which a share's server may
  // refuse.
  const auto add = [&](const std::string& path) {
    const auto holds = [&](const std::string& it) { return path.starts_with(it + "/"); };
    if (path.size() <= 1 || std::ranges::any_of(added, holds)) return;  // some are in /
    settings.push_back({"ReadWritePaths", "-" + path});
    added.push_back(path);
  };
  std::error_code error;
  for (fs::directory_iterator at("/", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool folder = !at->is_symlink(error) && at->is_directory(error);
    if (folder && !is_systems(name)) add(at->path().string());
  }
  // Other users' homes are read-only; root's too, unless the trainer is root.
  if (place.users_home != "/root") settings.push_back({"ProtectHome", "read-only"});
  for (const auto& path : {place.run_directory, place.home}) add(path);
  if (place.owner.empty()) return add(place.users_home);
  if (place.users_home.size() <= 1 || place.users_home == place.home) return;
  settings.push_back({"ReadOnlyPaths", "-" + place.users_home});
  for (const auto& path :
       {place.run_directory, place.home})  // in it, and no less writable for that
    if (path.starts_with(place.users_home + "/"))
      settings.push_back({"ReadWritePaths", "-" + path});
}

void add_out_of_reach(Settings& settings, const TrainerPlace& place) {
  for (const std::string_view each : kWaysOut)
    settings.push_back({"InaccessiblePaths", "-" + std::string(each)});
  if (place.users_home.size() <= 1) return;
  for (const char* key :
       {".ssh", ".local/share/jupyter", ".jupyter", ".vnc", ".Xauthority", ".vscode-server"})
    settings.push_back({"InaccessiblePaths", "-" + place.users_home + "/" + key});
}

// Before the trainer starts, as its user and outside of the unit's view of the file system: only
// what exists is made writable there.
void add_caches(Settings& settings, const TrainerPlace& place) {
  if (place.owner.empty() || place.users_home.size() <= 1) return;
  const auto colon = place.owner.find(':');
  std::string make = "-+/usr/bin/setpriv --reuid=" + place.owner.substr(0, colon) +
                     " --regid=" + place.owner.substr(colon + 1) +
                     " --clear-groups /bin/mkdir -p -m 0700";
  for (const std::string_view each : kCaches) {
    const std::string path = place.users_home + "/" + std::string(each);
    make += " " + quoted(path);
    settings.push_back({"ReadWritePaths", "-" + path});
  }
  settings.push_back({"ExecStartPre", make});
}

// By root, outside of the unit's view of the file system, where a mount is possible.
void add_views(Settings& settings, const TrainerPlace& place) {
  if (place.views.empty()) return;
  const std::string command = quoted(place.program) + " views --home " + quoted(place.home) +
                              " --folder " + quoted(place.views_folder);
  std::string mount = "+" + command + " --user " + quoted(place.user);
  for (const std::string& name : place.views) mount += " " + quoted(name);
  settings.push_back({"FileDescriptorStoreMax", std::to_string(place.views.size())});
  settings.push_back({"ExecStartPre", mount});
  settings.push_back({"ExecStopPost", "-+" + command + " --detach"});
}

bool is_of_unit_section(const std::string& name) {
  constexpr std::string_view names[] = {"Description",       "After",       "Before",
                                        "RequiresMountsFor", "CollectMode", "DefaultDependencies"};
  for (const std::string_view each : names)
    if (name == each) return true;
  return false;
}

// One path, which may have spaces.
bool is_path(const std::string& name) {
  return name.ends_with("Paths") || name == "RequiresMountsFor";
}

}  // namespace

std::uint64_t most_tasks() {
  std::uint64_t most = 65'536;
  for (const char* limit : {"pid_max", "threads-max"}) {
    std::uint64_t of_kernel = 0;
    if (std::ifstream(std::string("/proc/sys/kernel/") + limit) >> of_kernel)
      most = std::min(most, of_kernel);
  }
  return most / 2;
}

std::string trainer_unit(const std::string& name) { return "spotter-trainer-" + name + ".service"; }

Settings of_trainer(const TrainerPlace& place) {
  Settings settings = {{"Description", "The trainer of the job " + place.name + ", under Spotter"},
                       {"CollectMode", "inactive-or-failed"},
                       // A unit that starts before another stops after it.
                       {"Before", agent_unit},
                       {"After", "remote-fs.target network-online.target"}};
  if (!place.home.empty()) settings.push_back({"RequiresMountsFor", place.home});
  settings.insert(settings.end(), std::begin(kTrainer), std::end(kTrainer));
  // Also works for sockets bound to a device, to which a routing rule does not apply.
  if (place.refuses_metadata)
    settings.push_back({"IPAddressDeny", "169.254.169.254 fd00:ec2::254"});
  settings.push_back({"TasksMax", std::to_string(most_tasks())});
  // Time for its checkpoint, and the guard's copy.
  const auto seconds = std::max(place.grace + 60s, 150s);
  settings.push_back({"TimeoutStopSec", std::to_string(seconds.count())});
  if (!place.memory_max.empty()) settings.push_back({"MemoryMax", place.memory_max});
  if (!place.cpu_quota.empty()) settings.push_back({"CPUQuota", place.cpu_quota});
  if (!place.cpu_weight.empty()) settings.push_back({"CPUWeight", place.cpu_weight});
  add_writable(settings, place);
  add_out_of_reach(settings, place);
  add_caches(settings, place);
  add_views(settings, place);
  return settings;
}

Settings of_verb(std::chrono::milliseconds limit, bool leaves_processes) {
  // The agent ends it in time; if that fails, systemd does. A shutdown needs these services.
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(limit).count() + 10;
  Settings settings = {{"Description", "Local work of Spotter"},
                       {"CollectMode", "inactive-or-failed"},
                       {"DefaultDependencies", "no"},
                       {"TimeoutStartSec", std::to_string(seconds)},
                       {"KillMode", leaves_processes ? "process" : "control-group"}};
  settings.insert(settings.end(), std::begin(kVerb), std::end(kVerb));
  return settings;
}

// The escaping of systemd's mount units.
std::string anchor_unit(const std::string& mount_point) {
  std::string name;
  constexpr std::string_view kept =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  for (const char each : mount_point.substr(mount_point.starts_with('/') ? 1 : 0)) {
    constexpr const char* digits = "0123456789abcdef";
    const auto code = static_cast<unsigned char>(each);
    if (each == '/') {
      name += '-';
    } else if (kept.find(each) != kept.npos) {
      name += each;
    } else {
      name += std::string("\\x") + digits[code / 16] + digits[code % 16];
    }
  }
  return "spotter-storage-" + name + ".service";
}

Settings of_anchor(const std::string& mount_point) {
  return {{"Description", "Keeps " + mount_point + " mounted until Spotter's agent has stopped"},
          {"CollectMode", "inactive-or-failed"},
          {"Before", agent_unit},
          {"RequiresMountsFor", mount_point},
          {"Type", "oneshot"},
          {"RemainAfterExit", "yes"},
          {"LogLevelMax", "warning"}};
}

std::vector<std::string> to_start(const std::string& unit, const std::vector<std::string>& command,
                                  const Settings& settings) {
  std::vector<std::string> words = {"systemd-run", "--quiet", "--no-block", "--unit=" + unit};
  for (const auto& [name, value] : settings)
    words.push_back("--property=" + name + "=" + (is_path(name) ? quoted(value) : value));
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string to_unit_file(const Settings& settings, const std::string& command) {
  std::string unit = "[Unit]\n";
  std::string service = "[Service]\nExecStart=" + command + "\n";
  for (const auto& [name, value] : settings) {
    std::string& section = is_of_unit_section(name) ? unit : service;
    section.append(name).append("=").append(value).append("\n");
  }
  return unit + service;
}

bool wanted() {
  const char* set = std::getenv("SPOTTER_UNITS");
  return set != nullptr && std::string_view(set) == "yes";
}

}  // namespace spotter::units
