// A Mirror in S3:
//
//   PREFIX/step-000000001234/SUM-model.bin ...   the parts, by name and content: two writers of one
//                                                step never overwrite one another's bytes
//   PREFIX/step-000000001234/manifest.json       last, and only if there is none: the commit
#pragma once

#include "agent/aws/s3/client.hpp"
#include "trainer/library/mirror.hpp"

namespace spotter::checkpoint {

// Fails when `place` is no S3 URL; nothing is asked for over the network yet. Without `client` it
// is that of this process's environment.
Result<std::unique_ptr<Mirror>> open_s3_mirror(Mirror::Settings settings,
                                               std::optional<s3::Settings> client = std::nullopt);

}  // namespace spotter::checkpoint
