#include "agent/io/random.hpp"

#include <sys/random.h>

#include <vector>

namespace spotter::io {

std::string random_hex(std::size_t digits) {
  std::vector<unsigned char> bytes(digits / 2);
  // Of that many bytes it gives all or, before the kernel has any, waits.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

}  // namespace spotter::io
