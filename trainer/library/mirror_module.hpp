// A mirror in S3 for libspotter.so: from libspotter_s3.so beside it. Only here is it loaded.
#pragma once

#include "trainer/library/mirror.hpp"

namespace spotter::checkpoint {

Result<std::unique_ptr<Mirror>> load_s3_mirror(Mirror::Settings settings);

}  // namespace spotter::checkpoint
