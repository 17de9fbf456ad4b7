#include "tests/trainer/short_memory.hpp"

#include <cstdlib>
#include <new>

namespace spotter::test {

thread_local int allocations_left = -1;

}  // namespace spotter::test

void* operator new(std::size_t bytes) {
  using spotter::test::allocations_left;
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
