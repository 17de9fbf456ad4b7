// The id of a job's folder on a share: what of the job lies elsewhere (its claims in a bucket) says
// by it to which of all jobs of that name it belongs.
#pragma once

#include <string>

#include "agent/host/failure.hpp"
#include "agent/io/beneath.hpp"

namespace spotter::act::host {

// 32 hexadecimal digits, drawn by the first who asks; from then on all who see the folder read
// the same, whatever happens at once or breaks off. It is the only name in .spotter/id: of the
// file systems' calls only rename(2), of one directory onto another, makes something with its
// content, and only where there is none, on NFS and sshfs too.
// REQUIRES: the folder is laid out, and the rights of the trainer's user (AsUser). Kinds: those of
// open_own(), "layout-unusable", those of fail_errno.
Result<std::string> home_id(const io::Beneath& home);

}  // namespace spotter::act::host
