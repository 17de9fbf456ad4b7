// What is on the disk? The one place that may call a disk blank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/host/failure.hpp"

namespace spotter::act::host {

struct Inspection {
  bool blank = false;  // provably: see inspect()
  std::string
      filesystem;  // "xfs", "ext4", ...; empty unless the disk holds exactly one file system
  std::string label;
  std::string uuid;
  std::string
      signature;  // whatever was recognized: "xfs", "crypto_LUKS", "LVM2_member", "dos", "gpt", ...
  std::string detail;  // a sentence for a person
  std::uint64_t bytes = 0;
};

// Blank means: libblkid finds neither a superblock nor a partition table (an ambivalent answer is
// not "nothing"), and the first and last MiB and every block of sample_positions() hold zeros only.
// A directory (ordinary-user emulation) is blank when empty, and holds the file system that its
// marker `.spotter-filesystem` names.
// Kinds: "device-absent", "not-permitted", "input-output", "inspect-failed".
Result<Inspection> inspect(const std::filesystem::path& device);

// Offsets of the 4 KiB blocks that are read: 64 spread over the device (one in each 64th, the same
// for the same size), and the places where file systems keep copies of their superblock.
std::vector<std::uint64_t> sample_positions(std::uint64_t device_bytes);
inline constexpr std::uint64_t sample_bytes = 4096;

bool is_directory_device(const std::filesystem::path& device);
inline constexpr const char* directory_marker = ".spotter-filesystem";

}  // namespace spotter::act::host
