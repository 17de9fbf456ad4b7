// memcpy for what is large and will not be looked at again soon.
#pragma once

#include <cstddef>

namespace spotter::checkpoint {

// As std::memcpy, but past the caches where the processor can (x86-64): a quarter quicker, as the
// target's old content is not read first, and the training finds its own data in the caches
// afterwards.
void stream_copy(char* target, const char* source, std::size_t bytes);

}  // namespace spotter::checkpoint
