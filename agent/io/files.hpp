// Files that are either whole or absent, also after a power cut. Every failure is the errno of the
// call that failed; nothing is retried (a failed fsync marks pages clean: write again, into a new
// file).
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "agent/base/result.hpp"

namespace spotter::io {

// What errno says, as a failure.
inline tl::unexpected<std::error_code> last_error() {
  return tl::unexpected(std::error_code(errno, std::generic_category()));
}

// Replaces `path` by a file that holds exactly `bytes` with exactly `mode` (the umask does not
// count). On success it is durable: temporary file in the same directory, fsync, rename, fsync of
// the directory. On failure the old file is as it was and the temporary one is removed.
Result<void, std::error_code> atomic_write(const std::filesystem::path& path,
                                           std::string_view bytes, mode_t mode);

// The same for what need not survive a power cut: whoever reads sees all of the new file or of the
// old one. The umask counts. The temporary file is `path`.tmp; what has that name is removed, and a
// link there not followed.
Result<void, std::error_code> replace_file(const std::string& path, std::string_view bytes,
                                           mode_t mode = 0666);

// The whole content of a regular file. std::errc::file_too_large when it is longer than `limit`
// bytes.
Result<std::string, std::error_code> read_file(const std::filesystem::path& path,
                                               std::size_t limit);

Result<void, std::error_code> fsync_directory(const std::filesystem::path& path);

// mkdir -p; directories that exist are left as they are. std::errc::not_a_directory otherwise.
Result<void, std::error_code> make_directories(const std::filesystem::path& path, mode_t mode);

}  // namespace spotter::io
