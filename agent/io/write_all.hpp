// A write that is whole: a short one is gone on with.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace spotter::io {

// False: errno says why, and a part may have been written.
inline bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = EIO;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace spotter::io
