// The memory for a channel's data: a fixed range of addresses, handed out in pages, the lowest that
// fit. So a stream that needs little touches little, and that stays in the processor's caches.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "agent/base/result.hpp"

namespace spotter::data {

class Memory {
 public:
  using Region = std::size_t;
  struct Piece {
    Region region = 0;
    char* memory = nullptr;  // null: there is no room now
  };

  static Result<Memory> make(std::size_t bytes);

  // REQUIRES: `bytes` is not 0.
  Piece take(std::size_t bytes);
  void give_back(Region region);
  std::size_t used() const { return used_; }
  std::size_t capacity() const { return capacity_; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(char* mapping) const;
  };
  using Mapping = std::unique_ptr<char, Unmap>;
  Memory(Mapping mapping, char* memory, std::size_t bytes)
      : mapping_(std::move(mapping)), memory_(memory), capacity_(bytes) {
    free_.emplace(0, bytes);
  }

  Mapping mapping_;
  char* memory_;  // the first large page's begin in it
  std::size_t capacity_;
  std::size_t used_ = 0;
  std::map<std::size_t, std::size_t> free_;   // begin -> size; neighbours are merged
  std::map<std::size_t, std::size_t> taken_;  // begin -> size
};

}  // namespace spotter::data
