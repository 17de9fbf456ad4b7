// Where this machine has its devices.
#pragma once

#include <filesystem>

namespace spotter::act::host {

struct Machine {
  std::filesystem::path devices = "/dev";
  std::filesystem::path sysfs = "/sys";
};

// Is it an EC2 instance, by what its firmware (Nitro) or its hypervisor (Xen) says? A container on
// one is, too. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html
bool is_ec2(const Machine& machine);

}  // namespace spotter::act::host
