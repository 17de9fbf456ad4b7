// libspotter.so has the C++ library in it, and that of Debian 12 calls what glibc has since 2.36
// only: Ubuntu 22.04 and Amazon Linux 2023 have an older one, without it.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) std::abort();
  return number;
}
