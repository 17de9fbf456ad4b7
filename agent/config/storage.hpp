// `storage:` of job.yaml.
#pragma once

#include "agent/config/reader.hpp"

namespace spotter::config {

// Exactly one of ebs, folder, nfs, efs and sshfs.
Reader::Take storage(Reader& reader, Storage& storage);

}  // namespace spotter::config
