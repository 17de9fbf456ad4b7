#include "agent/host/inspect.hpp"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "agent/io/descriptor.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

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
  if (!probe || blkid_probe_set_device(probe.get(), fd, 0, 0) != 0) {
    return fail("inspect-failed", "libblkid cannot open " + device.string());
  }
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
  if (::ioctl(fd, BLKGETSIZE64, &bytes) != 0) {
    return fail_errno(errno, "cannot read the size of " + device.string(), "inspect-failed");
  }
  if (bytes == 0)
    return fail("device-absent", device.string() + " has no size: nothing is behind it");
  bool nothing = false;
  auto found = probe_signatures(fd, device, nothing);
  if (!found) return found;
  found->bytes = bytes;
  if (!nothing) return found;
  const auto nonzero = first_nonzero_sample(fd, bytes);
  if (!nonzero) return tl::unexpected<Error>(nonzero.error());
  if (*nonzero) {
    found->signature = "data";
    found->detail = "no known signature, but data at byte " + std::to_string(**nonzero);
  } else {
    found->blank = true;
    found->detail = "blank";
  }
  return found;
}

}  // namespace

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
  if (::fstat(fd.get(), &status) != 0 || !S_ISBLK(status.st_mode)) {
    return fail("inspect-failed", device.string() + " is not a block device");
  }
  return inspect_block(fd.get(), device);
}

}  // namespace spotter::act::host
