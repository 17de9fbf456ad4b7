#include "agent/aws/s3/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace spotter::s3 {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> table = make_table();

#if defined(__x86_64__)

bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t before,
                                                               std::string_view bytes) {
  std::uint64_t crc = ~before;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; left > 0; ++at, --left) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(*at));
  return ~rest;
}

#elif defined(__aarch64__)

bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }

__attribute__((target("+crc"))) std::uint32_t by_instruction(std::uint32_t before,
                                                             std::string_view bytes) {
  std::uint32_t crc = ~before;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    crc = __crc32cd(crc, word);
  }
  for (; left > 0; ++at, --left) crc = __crc32cb(crc, static_cast<unsigned char>(*at));
  return ~crc;
}

#else

bool has_instruction() { return false; }
std::uint32_t by_instruction(std::uint32_t before, std::string_view bytes) {
  return crc32c_by_table(before, bytes);
}

#endif

}  // namespace

std::uint32_t crc32c_by_table(std::uint32_t before, std::string_view bytes) {
  std::uint32_t crc = ~before;
  for (const char each : bytes) {
    crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(each)) & 255];
  }
  return ~crc;
}

std::uint32_t crc32c(std::uint32_t before, std::string_view bytes) {
  static const bool instruction = has_instruction();
  return instruction ? by_instruction(before, bytes) : crc32c_by_table(before, bytes);
}

}  // namespace spotter::s3
