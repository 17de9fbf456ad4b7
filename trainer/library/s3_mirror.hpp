// A Mirror in S3 (bucket.hpp): a checkpoint's group, and its manifest's stem, is the name of its
// directory, step-000000001234; its files are those in it, manifest.json too.
#pragma once

#include "agent/aws/s3/client.hpp"
#include "trainer/library/mirror.hpp"

namespace spotter::checkpoint {

// Fails when `place` is no S3 URL; sends no request yet. Without `client` it uses this process's
// environment.
Result<std::unique_ptr<Mirror>> open_s3_mirror(Mirror::Settings settings,
                                               std::optional<s3::Settings> client = std::nullopt);

}  // namespace spotter::checkpoint
