// Finds and inspects this machine's devices.
#pragma once

#include <cstddef>

#include "agent/host/verb.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

struct Machine {
  std::filesystem::path devices = "/dev";
  std::filesystem::path sysfs = "/sys";
  std::filesystem::path images_own = "/opt/dlami/nvme";  // where AWS's AMIs mount their own disks
};

// Is it an EC2 instance, by what its firmware (Nitro) or its hypervisor (Xen) says? A container on
// one is, too. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
bool is_ec2(const Machine& machine);

// Finding a volume on this machine: by its serial, never by a name alone on Nitro.
// https://docs.aws.amazon.com/ebs/latest/userguide/identify-nvme-ebs-device.html

// The path of the block device (or, for ordinary-user emulation, directory) with symlinks resolved.
// Looked for every 100 ms until `wait` is over. In this order: the by-id symlink, the serials of
// the NVMe disks in sysfs, and, where the machine has no NVMe disk of EBS at all (Xen), the hint.
Result<std::filesystem::path> find_device(const verbs::FindDevice& asked,
                                          const Machine& machine = {});

// The other way round: vol-... of a device by its serial or by-id symlink; empty when neither says.
std::string volume_of(const std::filesystem::path& device,
                      const std::filesystem::path& devices = "/dev",
                      const std::filesystem::path& sysfs = "/sys");

// A file of sysfs without the blanks and NULs around its text; empty when it cannot be read.
std::string attribute_in_sysfs(const std::filesystem::path& path);

// Inspecting a disk. This is the one place that may call a disk blank.

struct Inspection {
  static constexpr std::string_view keys = "blank filesystem label uuid signature detail bytes";
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
Result<Inspection> inspect(const std::filesystem::path& device);

// Offsets of the 4 KiB blocks that are read: 64 spread over the device (one in each 64th, the same
// for the same size), and the places where file systems keep copies of their superblock.
std::vector<std::uint64_t> sample_positions(std::uint64_t device_bytes);
inline constexpr std::uint64_t sample_bytes = 4096;

bool is_directory_device(const std::filesystem::path& device);
inline constexpr const char* directory_marker = ".spotter-filesystem";

// mkfs, on a disk that is provably blank and on no other.

// Inspects, makes the file system ("xfs" or "ext4") without any force option, inspects again.
Result<Inspection> format(const std::filesystem::path& device, const std::string& filesystem);

// Are the machine's GPUs ready for a trainer, which has no right to make them so? Without NVML:
// device nodes, and what `nvidia-smi` says.

// NVIDIA's GPUs on the PCI bus, whatever their driver says of them. A GPU that the machine has lost
// (it fell off the bus before it booted) is not seen here, either.
std::size_t count_pci_gpus(const std::filesystem::path& sysfs);

// The output of `nvidia-smi -L`: lines "GPU 0: NVIDIA H100 (UUID: ...)". A GPU that has fallen off
// the bus has no such line; a slice of one (MIG) is indented and not counted.
std::size_t count_gpus(const std::string& listed);

// The output of `nvidia-smi -q`: the state of each GPU's part in the NVLink fabric, which must be
// "Completed" with the status "Success" before CUDA works. Empty where all are, or where there is
// no fabric ("N/A", or an older driver that does not say); else the first that is not.
// https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
std::string unready_fabric(const std::string& queried);

// Makes the device nodes as root does it (nvidia-modprobe), and looks each second until `count`
// GPUs answer, have their nodes, and the fabric between them, where there is one, is ready.
// Fails, with what was seen, after the wait, or at once without an nvidia-smi.
Result<void> await_gpus(const verbs::AwaitGpus& asked, const Machine& machine = {});

}  // namespace spotter::act::host
