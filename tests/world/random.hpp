// The world's only source of chance. SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
// number generators", 2014): the same numbers with every compiler, unlike std's distributions.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>

#include "tests/world/settings.hpp"

namespace spotter::world {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // REQUIRES: bound > 0. The bias of the remainder is far below what any test could see.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  // At least 0, and less than 1.
  double part() { return static_cast<double>(below(1U << 30)) / (1U << 30); }

  Duration within(Range range) {
    assert(range.least <= range.most);
    return range.least + Duration(static_cast<Duration::rep>(below(
                             static_cast<std::uint64_t>((range.most - range.least).count()) + 1)));
  }
  Duration up_to(Duration most) { return within({Duration{0}, most}); }

  std::string hex(std::size_t digits) {
    std::string text(digits, '0');
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < digits; ++i, bits >>= 4) {
      if (i % 16 == 0) bits = next();
      text[i] = "0123456789abcdef"[bits & 15];
    }
    return text;
  }
  // The letters of an id of IAM, base 32.
  std::string letters(std::size_t count) {
    std::string text(count, 'A');
    for (char& letter : text) letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[below(32)];
    return text;
  }
  std::string uuid() {
    return hex(8) + '-' + hex(4) + "-4" + hex(3) + "-a" + hex(3) + '-' + hex(12);
  }

 private:
  std::uint64_t state_;
};

}  // namespace spotter::world
