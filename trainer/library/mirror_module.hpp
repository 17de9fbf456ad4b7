// A mirror in S3 for libspotter.so, which loads libspotter_s3.so from its own directory for it.
#pragma once

#include "trainer/library/mirror.hpp"

namespace spotter::checkpoint {

Result<std::unique_ptr<Mirror>> load_s3_mirror(Mirror::Settings settings);

}  // namespace spotter::checkpoint
