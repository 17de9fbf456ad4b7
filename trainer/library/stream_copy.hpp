// A memcpy for large data that is not read again soon.
#pragma once

#include <cstddef>

namespace spotter::checkpoint {

// Like std::memcpy, but bypassing the caches if the processor can (x86-64): a quarter faster, as
// the target's old content is not read first, and training finds its own data in the caches
// afterwards.
void stream_copy(char* target, const char* source, std::size_t bytes);

}  // namespace spotter::checkpoint
