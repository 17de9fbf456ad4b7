// The volumes of a job that is launched or prepared.
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/config/job.hpp"
#include "agent/launch/user_data.hpp"

namespace spotter::command {

// The existing volumes with the tag by which the job's volume is found, and its copies without that
// tag, each once.
Result<std::vector<wire::Volume>, CallError> volumes_of(AwsCalls& calls, const config::Job& job);
// A snapshot of an interrupted move: the agent makes the volume from it.
Result<bool, CallError> has_snapshots(AwsCalls& calls, const config::Job& job);

// Instructions to run a finished job again: what a person does with its volume.
std::string how_to_run_again(const wire::Volume& volume);

// Says for a person what a move of a volume of that size to another zone takes, at most, and what
// would take less.
std::string words_of_move(const config::Job& job, std::uint64_t gibibytes);

// Makes the job's missing volumes, and prints that. `generation`: differs between two launches of
// the job, so that a volume deleted since is made again.
Result<void, CallError> provide_volumes(AwsCalls& calls, const config::Job& job,
                                        const std::string& generation);

// launch.package of s3://bucket/prefix/: the packages that the launching machine has are put there,
// and an instance installs the one that fits its system. Only the instance knows for certain which
// one that is (an image's name says nothing reliable), and a package has some MiB: so all are sent.
//
// They are what `package.file` names; else what lies beside job.yaml, where somebody who has
// downloaded a package puts it; else what scripts/package made, when `spotter` is a checkout's
// build. An installed package keeps no copy of itself.

// Nothing unless package.is_sent(). Fails if there is none, or if there are several of one kind.
Result<std::vector<launch::SentPackage>> packages_to_send(const config::Package& package,
                                                          const std::string& job_file);

// Puts there those that are not there yet. An object of that name with other bytes is left as it
// is, and is a failure.
Result<void, CallError> send_packages(const std::vector<launch::SentPackage>& packages);

}  // namespace spotter::command
