// `storage:` of job.yaml.
#pragma once

#include "agent/config/reader.hpp"

namespace spotter::config {

// Exactly one of ebs, folder, nfs, efs, sshfs and s3. Or a list:
//   - state: {ebs: {tag: {Name: my-volume}}}                 exactly one
//   - data:                                                  up to ten
//       snapshot: snap-0123456789abcdef0                     required
//       mount: /mnt/data                                     required
//       type: gp3, iops: 3000, throughput: 125
//       initialization_rate: 200                             MiB/s, from 100 to 300
void read_storage(Reader& reader, const Node& node, const std::string& path, Storage& storage);

// Reads a node that is a list (data_volumes.cpp).
void storage_list(Reader& reader, Storage& storage, const Node& node, const std::string& path);

// Checks that involve other parts of the job.
void check_data(Reader& reader, const Job& job);

}  // namespace spotter::config
