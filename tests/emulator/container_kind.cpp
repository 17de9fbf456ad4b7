#include "tests/emulator/container_kind.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "tests/emulator/control_group.hpp"
#include "tests/emulator/process_tree.hpp"

namespace spotter::emulator {
namespace fs = std::filesystem;
namespace {

constexpr const char* endpoint = "http://10.0.0.1:4566";
constexpr unsigned namespaces_deep = 3;  // this machine's, the init's, its own

// Runs in the init's namespaces, with which all of it goes. In front of it stand GROUP, HOME, ROOT,
// DISK, ENDPOINT and, as its arguments, those of systemd-nspawn for this instance.
constexpr const char* launcher = R"SH(
echo $$ >"$GROUP/cgroup.procs"
umount -R /sys/fs/cgroup  # systemd wants one hierarchy, which it alone writes to
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs tmpfs /run  # of systemd-nspawn's remains nothing is left here
ip link add br0 type bridge
ip address add 10.0.0.1/16 dev br0
ip link set br0 up

cd "$HERE"
mount -t tmpfs -o "mode=755,size=$DISK" tmpfs disk
mkdir disk/upper disk/work
mount -t overlay -o "lowerdir=$ROOT,upperdir=disk/upper,workdir=disk/work" overlay root
mkdir -p root/etc/systemd/network root/etc/systemd/system.conf.d
cat >root/etc/systemd/network/10-host0.network <<'END'
[Match]
Name=host0
[Network]
Address=10.0.0.2/16
Gateway=10.0.0.1
LinkLocalAddressing=no
IPv6AcceptRA=no
END
cp environment.conf root/etc/systemd/system.conf.d/emulator.conf

while :; do
  status=0
  SYSTEMD_SECCOMP=0 systemd-nspawn --boot --quiet --register=no --keep-unit --console=pipe \
    --network-bridge=br0 --resolv-conf=off --timezone=off --link-journal=no \
    --capability=CAP_SYS_RESOURCE,CAP_IPC_LOCK,CAP_SYS_PACCT,CAP_SYSLOG \
    --directory="$HERE/root" --bind="$HERE/journal:/var/log/journal" \
    --bind="$HERE/devices/disk:/dev/disk" "$@" </dev/null || status=$?
  [ $status = 133 ] || break  # it has asked for a reboot
  ip link delete ve-instance 2>/dev/null || true
done
)SH";

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text)
    result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

// The form that overlayfs takes:
// https://docs.kernel.org/filesystems/overlayfs.html#multiple-lower-layers
std::string joined(const std::vector<fs::path>& layers) {
  std::string result;
  for (const auto& layer : layers)
    result += (result.empty() ? "" : ":") + fs::absolute(layer).string();
  return result;
}

bool is_program(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"})
    if (::access((folder + name).c_str(), X_OK) == 0) return true;
  return false;
}

// Made of the instance's id, so the same after a reboot; 32 hexadecimal digits.
std::string machine_id(const InstanceId& id) {
  std::string digits;
  for (const char letter : id.str())
    if (std::isxdigit(static_cast<unsigned char>(letter)) != 0) digits += letter;
  digits.resize(32, '0');
  return digits;
}

// The form of `DefaultEnvironment=`: https://www.freedesktop.org/software/systemd/man/252/
std::string system_conf(const std::vector<std::string>& environment) {
  std::string lines = "[Manager]\nDefaultEnvironment=AWS_ENDPOINT_URL=" + std::string(endpoint);
  for (const auto& assignment : environment) lines += " \"" + assignment + "\"";
  return lines + "\n";
}

// The process ids of a process in each of its namespaces, this one's first.
std::vector<pid_t> numbers_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::vector<pid_t> numbers;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream fields(line.substr(6));
    for (pid_t number = 0; fields >> number;) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

Result<void> ContainerKind::possible(const ContainerSettings& settings) {
  for (const char* program : {"systemd-nspawn", "ip"})
    if (!is_program(program))
      return failure(std::string("--instances container needs ") + program +
                     " (packages systemd-container, iproute2)");
  const auto boots = [](const fs::path& layer) {
    return fs::exists(layer / "usr/lib/systemd/systemd");
  };
  if (std::none_of(settings.layers.begin(), settings.layers.end(), boots))
    return failure("--root: no systemd in any; one has to be the folder of a system that boots");
  if (control_groups().empty())
    return failure("--instances container needs cgroup2, and none is mounted below /sys/fs/cgroup");
  return {};
}

fs::path ContainerKind::program(const fs::path& home) const { return home / "boot"; }

Result<void> ContainerKind::furnish(const world::InstanceStarted& started,
                                    const fs::path& home) const {
  auto group = make_control_group(home);
  if (!group) return tl::unexpected(group.error());
  std::error_code failed;
  for (const char* folder : {"disk", "root", "journal", "devices/disk/by-id", "devices/disk/nodes"})
    if (!failed) fs::create_directories(home / folder, failed);
  if (failed) return failure(home.string() + ": " + failed.message());
  std::ofstream(home / "environment.conf") << system_conf(settings_.environment);
  std::ofstream script(program(home));
  script << "#!/bin/sh\nset -e\nGROUP=" << quoted(*group) << "\nHERE=" << quoted(home.string())
         << "\nROOT=" << quoted(joined(settings_.layers)) << "\nDISK=" << quoted(settings_.disk)
         << "\nset -- --machine=instance --uuid=" << machine_id(started.id);
  for (const auto& path : settings_.binds) script << " --bind=" << quoted(path.string());
  script << launcher;
  script.close();
  fs::permissions(program(home), fs::perms::owner_all, failed);
  if (failed || !script) return failure(program(home).string() + " could not be written");
  return {};
}

std::vector<std::string> ContainerKind::environment(const fs::path&, const std::string&) const {
  return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"};
}

pid_t ContainerKind::inside(pid_t init) const {
  for (const pid_t pid : descendants(init))
    if (const auto numbers = numbers_of(pid); numbers.size() == namespaces_deep)
      if (numbers.back() == 1) return pid;
  return 0;
}

// https://www.freedesktop.org/software/systemd/man/252/systemd.html#SIGRTMIN%2B4
void ContainerKind::shut_down(pid_t init) const {
  if (const pid_t systemd = inside(init); systemd > 0) ::kill(systemd, SIGRTMIN + 4);
}

void ContainerKind::clear(const fs::path& home) const { remove_control_groups(home); }

}  // namespace spotter::emulator
