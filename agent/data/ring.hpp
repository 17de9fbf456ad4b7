// The memory through which a channel's bytes go: a bounded piece of address space, given out in
// pages and mostly taken back in the same order. Low addresses are used again first, so that a
// stream that needs little touches little, and finds it in the processor's caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "agent/wire/result.hpp"

namespace spotter::data {

class Ring {
 public:
  using Region = std::uint64_t;
  struct Piece {
    Region region = 0;
    char* memory = nullptr;  // null: there is no room now
  };

  static Result<Ring> make(std::size_t bytes);
  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&&) = delete;
  ~Ring();

  Piece take(std::size_t bytes);
  void give_back(Region region);
  std::size_t used() const { return used_; }
  std::size_t capacity() const { return capacity_; }

 private:
  struct Taken {
    std::size_t begin;
    std::size_t end;
    bool free = false;
  };
  Ring(char* memory, std::size_t bytes) : memory_(memory), capacity_(bytes) {}

  char* memory_;
  std::size_t capacity_;
  std::size_t used_ = 0;
  std::deque<Taken> taken_;
  Region first_ = 0;  // the number of taken_.front()
};

}  // namespace spotter::data
