// A Mirror in S3:
//
//   PREFIX/step-000000001234/SUM-model.bin ...   parts, by name and content: two writers of one
//                                                step never overwrite one another's bytes
//   PREFIX/step-000000001234/manifest.json       written last, and only if absent: the commit
#pragma once

#include "agent/aws/s3/client.hpp"
#include "trainer/library/mirror.hpp"

namespace spotter::checkpoint {

// Fails when `place` is no S3 URL; sends no request yet. Without `client` it uses this process's
// environment.
Result<std::unique_ptr<Mirror>> open_s3_mirror(Mirror::Settings settings,
                                               std::optional<s3::Settings> client = std::nullopt);

}  // namespace spotter::checkpoint
