// Stands for CUDA's driver, where there is no GPU: which memory is pinned. It refuses a thread
// without a context, as the driver does, and memory that is not mapped (any more).
#include <sys/mman.h>

#include <cstddef>
#include <map>
#include <mutex>

namespace {

constexpr int kRefused = 1;  // CUDA_ERROR_INVALID_VALUE
thread_local void* current = nullptr;
std::mutex mutex;
std::map<void*, std::size_t> pinned;

}  // namespace

extern "C" {

int cuCtxGetCurrent(void** context) {
  *context = current;
  return 0;
}

int cuCtxSetCurrent(void* context) {
  current = context;
  return 0;
}

int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  const std::scoped_lock lock(mutex);
  unsigned char first = 0;
  if (current == nullptr || ::mincore(memory, 1, &first) != 0) return kRefused;
  return pinned.emplace(memory, bytes).second ? 0 : kRefused;
}

int cuMemHostUnregister(void* memory) {
  const std::scoped_lock lock(mutex);
  unsigned char first = 0;
  if (current == nullptr || ::mincore(memory, 1, &first) != 0) return kRefused;
  return pinned.erase(memory) == 1 ? 0 : kRefused;
}

std::size_t stand_in_pinned() {
  const std::scoped_lock lock(mutex);
  std::size_t bytes = 0;
  for (const auto& [memory, size] : pinned) bytes += size;
  return bytes;
}

}  // extern "C"
