#include "agent/host/device.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <thread>
#include <vector>

#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto look_every = 100ms;
constexpr const char* link_prefix = "nvme-Amazon_Elastic_Block_Store_";
constexpr const char* ebs_model = "Amazon Elastic Block Store";
constexpr std::size_t attribute_limit = 4096;  // a sysfs attribute is a page at most

// "vol-0123" -> "vol0123": the serial that EBS gives its NVMe disks. None when it is no volume id,
// so that what comes after is safe as part of a path.
std::optional<std::string> serial_of(const std::string& volume) {
  if (volume.rfind("vol-", 0) != 0 || volume.size() < 5 || volume.size() > 31) return std::nullopt;
  const std::string digits = volume.substr(4);
  if (!std::all_of(digits.begin(), digits.end(),
                   [](unsigned char c) { return std::isxdigit(c); })) {
    return std::nullopt;
  }
  return "vol" + digits;
}

bool is_device(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (S_ISBLK(status.st_mode) || S_ISDIR(status.st_mode));
}

// nvme1n1 but not nvme1n1p1; sysfs lists only whole disks here, yet a name is cheap to check.
std::vector<fs::path> nvme_disks(const fs::path& sysfs) {
  std::vector<fs::path> disks;
  std::error_code error;
  for (fs::directory_iterator at(sysfs / "block", error), end; !error && at != end;
       at.increment(error)) {
    const auto name = at->path().filename().string();
    if (name.rfind("nvme", 0) == 0 && name.find('p') == std::string::npos) {
      disks.push_back(at->path());
    }
  }
  std::sort(disks.begin(), disks.end());
  return disks;
}

// A stale by-id link (udev is behind) is caught by the serial of the disk that it leads to.
bool serial_contradicts(const fs::path& device, const std::string& serial, const fs::path& sysfs) {
  const auto stated = attribute_in_sysfs(sysfs / "block" / device.filename() / "device" / "serial");
  if (stated.empty() || device.filename().string().rfind("nvme", 0) != 0) return false;
  return stated != serial && stated != "vol-" + serial.substr(3);
}

std::optional<fs::path> by_id(const Machine& machine, const std::string& serial) {
  const auto link = machine.devices / "disk" / "by-id" / (link_prefix + serial);
  std::error_code error;
  const auto device = fs::canonical(link, error);
  if (error || !is_device(device) || serial_contradicts(device, serial, machine.sysfs)) {
    return std::nullopt;
  }
  return device;
}

std::optional<fs::path> by_serial(const Machine& machine, const std::string& serial) {
  for (const auto& disk : nvme_disks(machine.sysfs)) {
    const auto stated = attribute_in_sysfs(disk / "device" / "serial");
    if (stated != serial && stated != "vol-" + serial.substr(3)) continue;
    const auto device = machine.devices / disk.filename();
    if (is_device(device)) return device;
  }
  return std::nullopt;
}

// On Nitro even the root disk is an NVMe disk of EBS, and the attachment's name means nothing.
bool names_mean_something(const fs::path& sysfs) {
  const auto disks = nvme_disks(sysfs);
  return std::none_of(disks.begin(), disks.end(), [](const fs::path& disk) {
    return attribute_in_sysfs(disk / "device" / "model") == ebs_model;
  });
}

// /dev/sdf is seen as /dev/xvdf by most kernels on Xen, as /dev/sdf by some.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
std::optional<fs::path> by_hint(const Machine& machine, const std::string& hint) {
  const auto name = fs::path(hint).filename().string();
  if (name.empty() || name == "." || name == ".." || !names_mean_something(machine.sysfs)) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  if (name.rfind("sd", 0) == 0) names.push_back("xvd" + name.substr(2));
  if (name.rfind("sd", 0) == 0 || name.rfind("xvd", 0) == 0) names.push_back(name);
  for (const auto& candidate : names) {
    if (is_device(machine.devices / candidate)) return machine.devices / candidate;
  }
  return std::nullopt;
}

}  // namespace

std::string attribute_in_sysfs(const fs::path& path) {
  auto text = io::read_file(path, attribute_limit).value_or("");
  const auto padding = [](unsigned char c) { return std::isspace(c) || c == '\0'; };
  while (!text.empty() && padding(static_cast<unsigned char>(text.back()))) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), padding));
  return text;
}

bool is_ec2(const Machine& machine) {
  return attribute_in_sysfs(machine.sysfs / "class/dmi/id/sys_vendor") == "Amazon EC2" ||
         attribute_in_sysfs(machine.sysfs / "hypervisor/uuid").starts_with("ec2");
}

Result<fs::path> find_device(const verbs::FindDevice& asked, const Machine& machine) {
  const auto serial = serial_of(asked.volume);
  if (!serial) return fail("bad-request", "'" + asked.volume + "' is not a volume id (vol-...)");
  const auto until = std::chrono::steady_clock::now() + asked.wait;
  for (;;) {
    if (const auto device = by_id(machine, *serial)) return *device;
    if (const auto device = by_serial(machine, *serial)) return *device;
    if (const auto device = by_hint(machine, asked.hint)) return *device;
    if (std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(look_every);
  }
  return fail("device-absent", "no disk with the serial of " + asked.volume + " in " +
                                   machine.devices.string() + " after " +
                                   std::to_string(asked.wait.count()) +
                                   " ms; is the volume attached to this instance?");
}

std::string volume_of(const fs::path& device, const fs::path& devices, const fs::path& sysfs) {
  std::error_code error;
  const auto wanted = fs::canonical(device, error);
  if (error) return {};
  auto serial = attribute_in_sysfs(sysfs / "block" / wanted.filename() / "device" / "serial");
  for (fs::directory_iterator at(devices / "disk" / "by-id", error), end;
       !error && at != end && serial.rfind("vol", 0) != 0; at.increment(error)) {
    const auto name = at->path().filename().string();
    std::error_code unresolved;
    if (name.rfind(link_prefix, 0) == 0 && fs::canonical(at->path(), unresolved) == wanted) {
      serial = name.substr(std::string(link_prefix).size());
    }
  }
  if (serial.rfind("vol-", 0) == 0) return serial_of(serial) ? serial : std::string();
  const auto volume = serial.rfind("vol", 0) == 0 ? "vol-" + serial.substr(3) : std::string();
  return serial_of(volume) ? volume : std::string();
}

}  // namespace spotter::act::host
