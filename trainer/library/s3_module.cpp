// libspotter_s3.so: what libspotter.so loads when a mirror in S3 is asked for, so that a program
// without one needs no libcurl. Both come from one build.
#include "trainer/library/s3_mirror.hpp"

extern "C" __attribute__((visibility("default"))) void spotter_open_s3_mirror(
    spotter::checkpoint::Mirror::Settings* settings,
    spotter::Result<std::unique_ptr<spotter::checkpoint::Mirror>>* opened) {
  *opened = spotter::checkpoint::open_s3_mirror(std::move(*settings));
}
