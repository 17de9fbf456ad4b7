// libspotter.so contains the C++ library, and that of Debian 12 calls a function that glibc has
// only since 2.36; Ubuntu 22.04 and Amazon Linux 2023 have an older glibc.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) std::abort();
  return number;
}
