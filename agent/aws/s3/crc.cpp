#include "agent/aws/s3/crc.hpp"

#include <array>
#include <cstring>
#include <iterator>

#if defined(__x86_64__)
#include <immintrin.h>
#include <nmmintrin.h>
#elif defined(__aarch64__) && !defined(SPOTTER_CLIENT)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace spotter::s3 {
namespace {

constexpr std::uint32_t castagnoli = 0x82F63B78U;
// https://reveng.sourceforge.io/crc-catalogue/all.htm#crc.cat.crc-64-nvme
constexpr std::uint64_t nvme = 0x9A6C9329AC4BC9B5U;

// The highest bit stands for x^0, here and below.
template <auto polynomial>
constexpr auto times_x(decltype(polynomial) value) {
  return (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0U);
}

template <auto polynomial, class Word = decltype(polynomial)>
constexpr std::array<Word, 256> table = [] {
  std::array<Word, 256> all{};
  for (Word i = 0; i < all.size(); ++i) {
    all[i] = i;
    for (int bit = 0; bit < 8; ++bit) all[i] = times_x<polynomial>(all[i]);
  }
  return all;
}();

template <auto polynomial>
auto go_on(decltype(polynomial) crc, std::string_view bytes) {
  for (const char each : bytes)
    crc = (crc >> 8) ^ table<polynomial>[(crc ^ static_cast<unsigned char>(each)) & 255];
  return crc;
}

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

#elif defined(__aarch64__) && !defined(SPOTTER_CLIENT)

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
  return ~go_on<castagnoli>(~before, bytes);
}

std::uint32_t crc32c(std::uint32_t before, std::string_view bytes) {
  static const bool instruction = has_instruction();
  return instruction ? by_instruction(before, bytes) : crc32c_by_table(before, bytes);
}

namespace {

#if defined(__x86_64__)

constexpr std::size_t lane_bytes = 16;                     // bytes of a register
constexpr std::size_t step_bytes = 4 * lane_bytes;         // of the loop
constexpr std::size_t worth_multiplying = 2 * step_bytes;  // of fewer bytes the table is as fast

// x^n modulo the polynomial.
constexpr std::uint64_t power(int n) {
  std::uint64_t value = std::uint64_t{1} << 63;
  for (int i = 0; i < n; ++i) value = times_x<nvme>(value);
  return value;
}

bool can_multiply() {
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

// `value` moved on by so many bits as the factors are for: its first half by 64 more. The product
// of two such numbers has its bits one place too low, so the powers are one less.
template <int bits>
__attribute__((target("pclmul,sse4.1"))) __m128i moved(__m128i value) {
  constexpr std::uint64_t first = power(bits + 64 - 1);
  constexpr std::uint64_t second = power(bits - 1);
  const __m128i factors =
      _mm_set_epi64x(static_cast<long long>(second), static_cast<long long>(first));
  return _mm_xor_si128(_mm_clmulepi64_si128(value, factors, 0x00),
                       _mm_clmulepi64_si128(value, factors, 0x11));
}

__attribute__((target("pclmul,sse4.1"))) std::uint64_t by_multiplication(std::uint64_t crc,
                                                                         const char* at,
                                                                         std::size_t bytes) {
  const auto load = [](const char* from) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  __m128i lanes[] = {load(at), load(at + lane_bytes), load(at + 2 * lane_bytes),
                     load(at + 3 * lane_bytes)};
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi64_si128(static_cast<long long>(crc)));
  for (at += step_bytes, bytes -= step_bytes; bytes >= step_bytes;
       at += step_bytes, bytes -= step_bytes) {
    for (std::size_t i = 0; i < std::size(lanes); ++i)
      lanes[i] = _mm_xor_si128(moved<8 * step_bytes>(lanes[i]), load(at + i * lane_bytes));
  }
  __m128i whole = lanes[0];
  for (std::size_t i = 1; i < std::size(lanes); ++i)
    whole = _mm_xor_si128(moved<8 * lane_bytes>(whole), lanes[i]);
  std::array<char, lane_bytes> rest{};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest.data()), whole);
  return go_on<nvme>(go_on<nvme>(0, {rest.data(), rest.size()}), {at, bytes});
}

#else

constexpr std::size_t worth_multiplying = ~std::size_t{0};
bool can_multiply() { return false; }
std::uint64_t by_multiplication(std::uint64_t crc, const char* at, std::size_t bytes) {
  return go_on<nvme>(crc, {at, bytes});
}

#endif

}  // namespace

std::uint64_t crc64nvme_by_table(std::uint64_t before, std::string_view bytes) {
  return ~go_on<nvme>(~before, bytes);
}

std::uint64_t crc64nvme(std::uint64_t before, std::string_view bytes) {
  static const bool multiply = can_multiply();
  if (!multiply || bytes.size() < worth_multiplying) return crc64nvme_by_table(before, bytes);
  return ~by_multiplication(~before, bytes.data(), bytes.size());
}

}  // namespace spotter::s3
