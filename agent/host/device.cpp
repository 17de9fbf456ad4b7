#include "agent/host/device.hpp"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <thread>

#include "agent/base/text.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

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
  if (digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) return std::nullopt;
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
    if (name.rfind("nvme", 0) == 0 && name.find('p') == std::string::npos)
      disks.push_back(at->path());
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
  if (error || !is_device(device) || serial_contradicts(device, serial, machine.sysfs))
    return std::nullopt;
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
  if (name.empty() || name == "." || name == ".." || !names_mean_something(machine.sysfs))
    return std::nullopt;
  std::vector<std::string> names;
  if (name.rfind("sd", 0) == 0) names.push_back("xvd" + name.substr(2));
  if (name.rfind("sd", 0) == 0 || name.rfind("xvd", 0) == 0) names.push_back(name);
  for (const auto& candidate : names) {
    if (is_device(machine.devices / candidate)) return machine.devices / candidate;
  }
  return std::nullopt;
}

constexpr std::uint64_t mebibyte = 1U << 20;
constexpr std::uint64_t sample_count = 64;

using Probe = std::unique_ptr<blkid_struct_probe, decltype(&blkid_free_probe)>;

std::string value(blkid_probe probe, const char* name) {
  const char* text = nullptr;
  if (blkid_probe_lookup_value(probe, name, &text, nullptr) != 0 || text == nullptr) return {};
  return text;
}

// The same for the same number, spread evenly: Steele et al., SplitMix64.
std::uint64_t scatter(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30U)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27U)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31U);
}

// The offset of the first byte in [begin, end) that is not zero; none when all are.
Result<std::optional<std::uint64_t>> first_nonzero(int fd, std::uint64_t begin, std::uint64_t end) {
  std::vector<char> buffer(65536);
  while (begin < end) {
    const auto wanted = std::min<std::uint64_t>(buffer.size(), end - begin);
    const auto n = ::pread(fd, buffer.data(), wanted, static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "cannot read the disk", "inspect-failed");
    if (n == 0) return fail("inspect-failed", "the disk ends before its stated size");
    const auto* last = buffer.data() + n;
    const auto* found =
        std::find_if(buffer.data(), buffer.data() + n, [](char c) { return c != 0; });
    if (found != last) return begin + static_cast<std::uint64_t>(found - buffer.data());
    begin += static_cast<std::uint64_t>(n);
  }
  return std::nullopt;
}

Result<std::optional<std::uint64_t>> first_nonzero_sample(int fd, std::uint64_t bytes) {
  const auto edge = std::min(mebibyte, bytes);
  auto found = first_nonzero(fd, 0, edge);
  if (!found || *found) return found;
  found = first_nonzero(fd, bytes - edge, bytes);
  if (!found || *found) return found;
  for (const auto position : sample_positions(bytes)) {
    found = first_nonzero(fd, position, std::min(position + sample_bytes, bytes));
    if (!found || *found) return found;
  }
  return std::nullopt;
}

std::string describe(const Inspection& found, const std::string& usage, const std::string& table) {
  if (!found.filesystem.empty()) return "a file system of type " + found.filesystem;
  if (found.signature == "crypto_LUKS") return "an encrypted LUKS container";
  if (found.signature == "LVM2_member") return "a physical volume of LVM";
  if (found.signature == "swap") return "swap space";
  if (usage == "raid") return "a member of a RAID (" + found.signature + ")";
  if (!table.empty()) return "a partition table (" + table + ")";
  return "data of type " + found.signature;
}

constexpr int nothing_found = 1;  // blkid_do_safeprobe(3)
constexpr int ambivalent = -2;

Result<Inspection> probe_signatures(int fd, const fs::path& device, bool& nothing) {
  Probe probe(blkid_new_probe(), &blkid_free_probe);
  if (!probe || blkid_probe_set_device(probe.get(), fd, 0, 0) != 0)
    return fail("inspect-failed", "libblkid cannot open " + device.string());
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL |
                                                     BLKID_SUBLKS_UUID | BLKID_SUBLKS_USAGE |
                                                     BLKID_SUBLKS_BADCSUM);
  blkid_probe_enable_partitions(probe.get(), 1);
  const int answer = blkid_do_safeprobe(probe.get());
  Inspection found;
  nothing = answer == nothing_found;
  if (nothing) return found;
  if (answer == ambivalent) {
    found.signature = "ambivalent";
    found.detail = "signatures of more than one kind; see wipefs --no-act " + device.string();
    return found;
  }
  if (answer != 0) return fail("inspect-failed", "libblkid cannot probe " + device.string());
  const auto usage = value(probe.get(), "USAGE");
  const auto table = value(probe.get(), "PTTYPE");
  found.signature = value(probe.get(), "TYPE");
  found.label = value(probe.get(), "LABEL");
  found.uuid = value(probe.get(), "UUID");
  if (usage == "filesystem") found.filesystem = found.signature;
  if (found.signature.empty()) found.signature = table.empty() ? "unknown" : table;
  found.detail = describe(found, usage, table);
  return found;
}

Result<Inspection> inspect_directory(const fs::path& device) {
  std::error_code error;
  const bool empty = fs::is_empty(device, error);
  if (error) return fail_errno(error, "cannot list " + device.string(), "inspect-failed");
  Inspection found;
  found.blank = empty;
  if (empty) {
    found.detail = "an empty directory";
  } else if (const auto marker = io::read_file(device / directory_marker, 64)) {
    found.filesystem = marker->substr(0, marker->find_first_of(" \n"));
    found.signature = found.filesystem;
    found.detail = "a directory that stands for a file system of type " + found.filesystem;
  } else {
    found.signature = "files";
    found.detail = "a directory with files, without " + std::string(directory_marker);
  }
  return found;
}

Result<Inspection> inspect_block(int fd, const fs::path& device) {
  std::uint64_t bytes = 0;
  if (::ioctl(fd, BLKGETSIZE64, &bytes) != 0)
    return fail_errno(errno, "cannot read the size of " + device.string(), "inspect-failed");
  if (bytes == 0)
    return fail("device-absent", device.string() + " has no size: nothing is behind it");
  bool nothing = false;
  auto found = TRY(probe_signatures(fd, device, nothing));
  found.bytes = bytes;
  if (!nothing) return found;
  const auto nonzero = TRY(first_nonzero_sample(fd, bytes));
  if (nonzero) {
    found.signature = "data";
    found.detail = "no known signature, but data at byte " + std::to_string(*nonzero);
  } else {
    found.blank = true;
    found.detail = "blank";
  }
  return found;
}

struct Maker {
  std::vector<std::string> argv;
  std::string package;
};

// Without any force option, so that mkfs refuses, too; without discarding, which a new volume needs
// not.
Maker maker_of(const std::string& filesystem, const fs::path& device) {
  if (filesystem == "xfs") return {{"mkfs.xfs", "-q", "-K", device.string()}, "xfsprogs"};
  return {{"mkfs.ext4", "-q", "-E", "nodiscard", device.string()}, "e2fsprogs"};
}

Result<void> make(const fs::path& device, const std::string& filesystem) {
  if (is_directory_device(device)) {
    const auto written = io::atomic_write(device / directory_marker, filesystem + "\n", 0644);
    if (!written) return fail_errno(written.error(), "cannot write to " + device.string());
    return {};
  }
  {  // O_EXCL on a block device: nobody else has it mounted or claimed, in any mount namespace
    const io::Descriptor claim(::open(device.c_str(), O_RDWR | O_EXCL | O_CLOEXEC));
    if (!claim && errno == EBUSY)
      return fail("device-busy", device.string() + " is in use; it is not formatted");
    if (!claim) return fail_errno(errno, "cannot open " + device.string(), "format-failed");
  }
  const auto maker = maker_of(filesystem, device);
  const ToolRequest request{.argv = maker.argv, .environment = {{"LC_ALL", "C"}}};
  const auto result = TRY(run_tool(request, maker.package));
  if (result.status != 0) {
    return fail("format-failed",
                maker.argv[0] + " failed on " + device.string() + ": " + last_words(result));
  }
  return {};
}

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto gpu_looked_at_every = 1s;
constexpr const char* driver = "nvidia-utils (the GPU's driver)";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// "nvidia0" is a GPU's, "nvidia-uvm" and "nvidiactl" are not.
std::size_t count_nodes(const fs::path& devices) {
  std::size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator at(devices, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    count += name.rfind("nvidia", 0) == 0 && name.size() > 6 &&
             name.find_first_not_of("0123456789", 6) == name.npos;
  }
  return count;
}

std::string missing_node(std::size_t count, const fs::path& devices) {
  for (const char* name : {"nvidiactl", "nvidia-uvm"}) {
    if (!is_there(devices / name)) return (devices / name).string() + " is not there";
  }
  const std::size_t nodes = count_nodes(devices);
  if (nodes >= count) return {};
  return std::to_string(nodes) + " of " + std::to_string(count) + " device nodes " +
         (devices / "nvidia*").string() + " are there";
}

// The trainer's user cannot: nvidia-modprobe is setuid, which a sandbox forbids. If it is not
// installed, nvidia-smi or udev have made them, or the look says what is missing.
void make_nodes(std::size_t count, const fs::path& devices) {
  if (missing_node(count, devices).empty()) return;
  ToolRequest gpus{.argv = {"nvidia-modprobe"}};
  for (std::size_t i = 0; i < count; ++i) {
    gpus.argv.insert(gpus.argv.end(), {"-c", std::to_string(i)});
  }
  (void)run_tool(gpus, driver);
  const ToolRequest memory{.argv = {"nvidia-modprobe", "-u", "-c", "0"}};
  (void)run_tool(memory, driver);
}

// NVSwitches of which the GPUs themselves say nothing (A100: p4d): the service must be up, where
// there is a systemd to ask.
std::string unready_manager(const fs::path& devices) {
  if (!is_there(devices / "nvidia-nvswitch0")) return {};
  const auto asked = run_tool({.argv = {"systemctl", "is-active", "nvidia-fabricmanager"}}, "");
  if (!asked || asked->status == 0) return {};
  return "the service nvidia-fabricmanager is " + last_words(*asked);
}

// Returns what is missing, for a person; empty: nothing.
Result<std::string> look(std::size_t count, const fs::path& devices) {
  const auto listed = run_tool({.argv = {"nvidia-smi", "-L"}}, driver);
  if (!listed) return fail("gpus-absent", listed.error().message);
  const std::size_t answer = count_gpus(listed->output);
  if (answer < count)
    return std::to_string(answer) + " of " + std::to_string(count) +
           " GPUs answer; nvidia-smi -L says: " + last_words(*listed);
  make_nodes(count, devices);
  std::string words = missing_node(count, devices);
  if (words.empty()) words = unready_manager(devices);
  if (!words.empty()) return words;
  const auto queried = run_tool({.argv = {"nvidia-smi", "-q"}}, driver);
  if (!queried) return fail("gpus-absent", queried.error().message);
  return unready_fabric(queried->output);
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
    if (name.rfind(link_prefix, 0) == 0 && fs::canonical(at->path(), unresolved) == wanted)
      serial = name.substr(std::string(link_prefix).size());
  }
  if (serial.rfind("vol-", 0) == 0) return serial_of(serial) ? serial : std::string();
  const auto volume = serial.rfind("vol", 0) == 0 ? "vol-" + serial.substr(3) : std::string();
  return serial_of(volume) ? volume : std::string();
}

std::vector<std::uint64_t> sample_positions(std::uint64_t device_bytes) {
  std::vector<std::uint64_t> positions;
  const std::uint64_t blocks = device_bytes / sample_bytes;
  for (std::uint64_t i = 0; i < sample_count && blocks > 0; ++i) {
    const std::uint64_t begin = blocks * i / sample_count;
    const std::uint64_t width = std::max<std::uint64_t>(1, blocks * (i + 1) / sample_count - begin);
    positions.push_back((begin + scatter(i) % width) * sample_bytes);
  }
  // Copies of superblocks: btrfs, ext4's second group, XFS's later allocation groups.
  for (const std::uint64_t copy :
       {64 * mebibyte, 128 * mebibyte, device_bytes / 4, device_bytes / 2, device_bytes / 4 * 3}) {
    const std::uint64_t position = copy / sample_bytes * sample_bytes;
    if (position + sample_bytes <= device_bytes) positions.push_back(position);
  }
  return positions;
}

bool is_directory_device(const fs::path& device) {
  std::error_code error;
  return fs::is_directory(device, error);
}

Result<Inspection> inspect(const fs::path& device) {
  if (is_directory_device(device)) return inspect_directory(device);
  const io::Descriptor fd(::open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) return fail("device-absent", "there is no " + device.string());
    return fail_errno(errno, "cannot open " + device.string(), "inspect-failed");
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISBLK(status.st_mode))
    return fail("inspect-failed", device.string() + " is not a block device");
  return inspect_block(fd.get(), device);
}

Result<Inspection> format(const fs::path& device, const std::string& filesystem) {
  if (filesystem != "xfs" && filesystem != "ext4")
    return fail("bad-request", "the file system is xfs or ext4, not '" + filesystem + "'");
  const auto before = TRY(inspect(device));
  if (!before.blank) {
    return fail("not-blank", device.string() + " is not blank, it holds " + before.detail +
                                 "; it is left as it is");
  }
  TRY(make(device, filesystem));
  auto after = inspect(device);
  if (after && after->filesystem != filesystem)
    return fail("format-failed", "after mkfs, " + device.string() + " holds " + after->detail);
  return after;
}

std::size_t count_gpus(const std::string& listed) {
  std::size_t count = 0;
  std::istringstream lines(listed);
  for (std::string line; std::getline(lines, line);) {
    const bool numbered = line.rfind("GPU ", 0) == 0 && line.size() > 4 && isdigit(line[4]);
    count += numbered && line.find("UUID") != std::string::npos;
  }
  return count;
}

std::string unready_fabric(const std::string& queried) {
  std::istringstream lines(queried);
  std::size_t section =
      std::string::npos;  // the indentation of the heading "Fabric" that we are in
  for (std::string line; std::getline(lines, line);) {
    const std::string text(trimmed(line));
    if (text.empty()) continue;
    const std::size_t indented = line.find_first_not_of(" \t");
    if (text == "Fabric") {
      section = indented;
      continue;
    }
    if (section == std::string::npos) continue;
    if (indented <= section) {
      section = std::string::npos;
      continue;
    }
    const auto colon = text.find(':');
    if (colon == std::string::npos) continue;
    const std::string key(trimmed(std::string_view(text).substr(0, colon)));
    const std::string value(trimmed(std::string_view(text).substr(colon + 1)));
    const bool wrong_state = key == "State" && value != "Completed" && value != "N/A";
    const bool wrong_status = key == "Status" && value != "Success" && value != "N/A";
    if (wrong_state || wrong_status) return "the NVLink fabric's " + key + " is " + value;
  }
  return {};
}

std::size_t count_pci_gpus(const fs::path& sysfs) {
  std::size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator at(sysfs / "bus/pci/devices", error), end; !error && at != end;
       at.increment(error)) {
    // A display or 3D controller; the bridges of NVLink (0x0680) are NVIDIA's, too.
    const std::string kind = attribute_in_sysfs(at->path() / "class").substr(0, 6);
    count += attribute_in_sysfs(at->path() / "vendor").starts_with("0x10de") &&
             (kind == "0x0300" || kind == "0x0302");
  }
  return count;
}

Result<void> await_gpus(const verbs::AwaitGpus& asked, const Machine& machine) {
  const fs::path& devices = machine.devices;
  std::size_t count = asked.count;
  if (count == 0) count = std::max<std::size_t>(1, count_pci_gpus(machine.sysfs));
  make_nodes(count, devices);
  for (const auto until = Clock::now() + asked.wait;;) {
    const auto missing = TRY(look(count, devices));
    if (missing.empty()) return {};
    if (Clock::now() >= until) return fail("gpus-absent", missing);
    std::this_thread::sleep_for(
        std::min<Clock::duration>(gpu_looked_at_every, until - Clock::now()));
  }
}

}  // namespace spotter::act::host
