// launch.package of s3://bucket/prefix/: the packages that the launching machine has are put there,
// and an instance installs the one that fits its system. Which that is only the instance knows for
// certain (an image's name says nothing reliable), and a package has some MiB: so all are sent.
//
// They are what `package.file` names; else what lies beside job.yaml, where somebody who has
// downloaded a package puts it; else what scripts/package made, when `spotter` is a checkout's
// build. An installed package keeps no copy of itself.
#pragma once

#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"
#include "agent/launch/user_data.hpp"

namespace spotter::command {

// Nothing unless package.is_sent(). Fails if there is none, or if there are several of one kind.
Result<std::vector<launch::SentPackage>> packages_to_send(const config::Package& package,
                                                          const std::string& job_file);

// Puts there those that are not there yet. An object of that name with other bytes is left as it
// is, and is a failure.
Result<void, CallError> send_packages(const std::vector<launch::SentPackage>& packages);

}  // namespace spotter::command
