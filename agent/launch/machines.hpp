// Can the machines that `launch:` names run the job? By what EC2 says of the instance types and of
// the image, before anything is made. A fleet may choose any of the types, so each has to fit.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/base/finding.hpp"
#include "agent/job/job.hpp"

namespace spotter::launch {

// What EC2 said. What is unknown is not judged.
struct Machines {
  std::vector<wire::TypeSize> types;             // empty: unknown
  std::string image;                             // its id; empty: unknown
  std::optional<std::vector<wire::Image>> seen;  // the image; empty: there is none; none: unknown
  std::vector<std::string> packages = {};  // files that the launch sends; empty: launch.package
  wire::WallTime now{};
  // Strategy of the placement group that launch.placement_group names; empty: unknown.
  std::string named_strategy = {};
};

// Of GPUs, architectures, the image, the number of volumes, the placement group and EFA. Fail: it
// can never work; Warn: it may not, or not for long. REQUIRES: job.launch.
Findings judge_machines(const config::Job& job, const Machines& machines);

// "x86_64", "arm64", by the name of a package (spotter_0.1.0_amd64.deb); else empty.
std::string_view architecture_of_package(std::string_view file);

}  // namespace spotter::launch
