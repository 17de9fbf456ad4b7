#include "agent/data/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>

namespace spotter::data {
namespace {

constexpr std::size_t small_page = 4096;
constexpr std::size_t large_page = 2U << 20;
std::size_t in_pages(std::size_t bytes) {
  return (bytes + small_page - 1) / small_page * small_page;
}

}  // namespace

Result<Memory> Memory::make(std::size_t bytes) {
  bytes = in_pages(bytes);
  const std::size_t mapped = bytes + large_page;
  void* mapping = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return failure("there is no room for the channels' buffer");
  // Uses large pages where the system has them: a page fault for each small page would cost as much
  // as receiving its bytes. The first bytes do not wait until one is cleared.
  auto* memory = static_cast<char*>(mapping);
  memory += -reinterpret_cast<std::uintptr_t>(memory) % large_page;
  if (bytes > large_page) (void)::madvise(memory + large_page, bytes - large_page, MADV_HUGEPAGE);
  return Memory(Mapping(static_cast<char*>(mapping), {mapped}), memory, bytes);
}

void Memory::Unmap::operator()(char* mapping) const { ::munmap(mapping, bytes); }

Memory::Piece Memory::take(std::size_t bytes) {
  assert(bytes > 0);
  bytes = in_pages(bytes);
  const auto gap =
      std::ranges::find_if(free_, [&](const auto& each) { return each.second >= bytes; });
  if (gap == free_.end()) return {};
  const auto [begin, size] = *gap;
  free_.erase(gap);
  if (size > bytes) free_.emplace(begin + bytes, size - bytes);
  taken_.emplace(begin, bytes);
  used_ += bytes;
  return {begin, memory_ + begin};
}

void Memory::give_back(Region region) {
  const auto taken = taken_.find(region);
  assert(taken != taken_.end());
  auto [begin, size] = *taken;
  taken_.erase(taken);
  used_ -= size;
  auto after = free_.lower_bound(begin);
  if (after != free_.end() && begin + size == after->first) {
    size += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      before->second += size;
      return;
    }
  }
  free_.emplace(begin, size);
}

}  // namespace spotter::data
