// libspotter_s3.so, loaded by libspotter.so only for a mirror in S3, so that other programs need no
// libcurl. Both are of one build.
#include "trainer/library/s3_mirror.hpp"

extern "C" __attribute__((visibility("default"))) void spotter_open_s3_mirror(
    spotter::checkpoint::Mirror::Settings* settings,
    spotter::Result<std::unique_ptr<spotter::checkpoint::Mirror>>* opened) {
  *opened = spotter::checkpoint::open_s3_mirror(std::move(*settings));
}
