#include "trainer/library/stream_copy.hpp"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace spotter::checkpoint {

#if defined(__SSE2__)

void stream_copy(char* target, const char* source, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const auto rest = static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(target)) % kLine;
  const std::size_t head = bytes < 4 * kLine ? bytes : rest;
  std::memcpy(target, source, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    auto* to = reinterpret_cast<__m128i*>(target + at);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  _mm_sfence();  // another thread will read the target
  std::memcpy(target + at, source + at, bytes - at);
}

#else

void stream_copy(char* target, const char* source, std::size_t bytes) {
  std::memcpy(target, source, bytes);
}

#endif

}  // namespace spotter::checkpoint
