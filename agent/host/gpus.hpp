// Are the machine's GPUs ready for a trainer, which has no right to make them so? Without NVML:
// device nodes, and what `nvidia-smi` says.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "agent/host/device.hpp"
#include "agent/host/verb.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

// NVIDIA's GPUs on the PCI bus, whatever their driver says of them. A GPU that the machine has lost
// (it fell off the bus before it booted) is not seen here, either.
std::size_t count_pci_gpus(const std::filesystem::path& sysfs);

// The result of one look at the machine.
struct GpuLook {
  std::size_t count = 0;  // of those that answer
  std::string words;      // what is missing, for a person; empty: nothing
};

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
// Kind: "gpus-absent", with what was seen: after the wait, or at once without an nvidia-smi.
Result<void> await_gpus(const verbs::AwaitGpus& asked, const Machine& machine = {});

}  // namespace spotter::act::host
