#include "agent/data/ring.hpp"

#include <sys/mman.h>

#include <cassert>
#include <utility>

namespace spotter::data {
namespace {

constexpr std::size_t page = 4096;
std::size_t in_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

Result<Ring> Ring::make(std::size_t bytes) {
  bytes = in_pages(bytes);
  // Shared: pages that lie in a pipe must stay the ones that we write to.
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return failure("there is no room for the channels' buffer");
  return Ring(static_cast<char*>(memory), bytes);
}

Ring::Ring(Ring&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      capacity_(other.capacity_),
      used_(other.used_),
      taken_(std::move(other.taken_)),
      first_(other.first_) {}

Ring::~Ring() {
  if (memory_ != nullptr) ::munmap(memory_, capacity_);
}

Ring::Piece Ring::take(std::size_t bytes) {
  bytes = in_pages(bytes);
  std::size_t begin = 0;
  if (!taken_.empty()) {
    const std::size_t oldest = taken_.front().begin;
    const std::size_t end = taken_.back().end;
    const bool wrapped = taken_.back().begin < oldest;
    // Back to the begin as soon as it fits there, not only at the very end.
    if (wrapped) {
      if (oldest - end < bytes) return {};
      begin = end;
    } else if (oldest >= bytes && oldest > 0) {
      begin = 0;
    } else if (capacity_ - end >= bytes) {
      begin = end;
    } else {
      return {};
    }
  } else if (capacity_ < bytes) {
    return {};
  }
  taken_.push_back({begin, begin + bytes, false});
  used_ += bytes;
  return {first_ + taken_.size() - 1, memory_ + begin};
}

void Ring::give_back(Region region) {
  Taken& taken = taken_[region - first_];
  assert(!taken.free);
  taken.free = true;
  used_ -= taken.end - taken.begin;
  while (!taken_.empty() && taken_.front().free) {
    taken_.pop_front();
    ++first_;
  }
}

}  // namespace spotter::data
